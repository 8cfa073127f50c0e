"""Limiters: one for a single process, one for many replicas."""
