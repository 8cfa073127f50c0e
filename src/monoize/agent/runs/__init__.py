"""Runs as a service: made, scheduled, followed, kept."""
