"""A streamed chat completion through the gateway with the openai package."""

import os

from openai import OpenAI

client = OpenAI(base_url=f"{os.environ['MONOIZE_URL']}/v1", api_key=os.environ["MONOIZE_KEY"])

stream = client.chat.completions.create(
    model=os.environ["MONOIZE_MODEL"],
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
