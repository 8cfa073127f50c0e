"""Stand-ins for the two ends of the gateway: providers, well behaved and hostile, and plain callers."""
