"""What a run leaves behind: the chained transcript, its verifier, recovery and replay."""
