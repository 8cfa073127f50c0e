"""What a call costs in the gateway, beside nginx and other gateways in the same run, and how the cost grows."""
