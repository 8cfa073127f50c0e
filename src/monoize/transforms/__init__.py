"""URP -> URP, one file per transform: `ls` is the catalogue."""
