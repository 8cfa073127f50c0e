"""The order of it all: from a caller's wire request to the caller's wire reply."""
