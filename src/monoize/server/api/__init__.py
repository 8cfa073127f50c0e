"""The management API: one table of endpoints, one file for each group of them."""
