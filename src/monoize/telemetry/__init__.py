"""What operators see: metrics of the gateway and its channels."""
