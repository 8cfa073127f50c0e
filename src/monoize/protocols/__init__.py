"""The wire protocols: every folder here is one; underscored modules are shared help."""
