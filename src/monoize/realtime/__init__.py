"""Voice sessions in OpenAI's realtime events: passed on to a provider that has them, or put together on this machine."""
