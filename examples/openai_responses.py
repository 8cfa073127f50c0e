"""A response through the gateway with the openai package."""

import os

from openai import OpenAI

client = OpenAI(base_url=f"{os.environ['MONOIZE_URL']}/v1", api_key=os.environ["MONOIZE_KEY"])

with client.responses.stream(
    model=os.environ["MONOIZE_MODEL"], input="What is the capital of France?", temperature=0
) as events:
    for event in events:
        if event.type == "response.output_text.delta":
            print(event.delta, end="", flush=True)
print()
