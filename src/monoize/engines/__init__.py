"""The local engines: every module here is one; underscored modules are shared help."""
