"""The HTTP edge: one file per group of routes, no logic."""
