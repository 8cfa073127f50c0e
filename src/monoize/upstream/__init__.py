"""The only room that talks to providers."""
