"""A streamed message through the gateway with the anthropic package."""

import os

from anthropic import Anthropic

client = Anthropic(base_url=os.environ["MONOIZE_URL"], api_key=os.environ["MONOIZE_KEY"])

with client.messages.stream(
    model=os.environ["MONOIZE_MODEL"],
    max_tokens=64,
    messages=[{"role": "user", "content": "What is the capital of France?"}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
