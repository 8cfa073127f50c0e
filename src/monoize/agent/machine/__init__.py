"""The state machine of a run: values in, values out."""
