"""One file per operation; what an operation is stands in `operation.py`."""
