"""Streamed content through the gateway with the google-genai package."""

import os

from google import genai
from google.genai import types

client = genai.Client(
    api_key=os.environ["MONOIZE_KEY"],
    http_options=types.HttpOptions(base_url=os.environ["MONOIZE_URL"], api_version="v1beta"),
)

for chunk in client.models.generate_content_stream(
    model=os.environ["MONOIZE_MODEL"],
    contents="What is the capital of France?",
    config=types.GenerateContentConfig(temperature=0),
):
    print(chunk.text or "", end="", flush=True)
print()
