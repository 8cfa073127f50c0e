"""The runtime: it does what the state machine wants done, and tells it what happened."""
