"""Ask the gateway aloud and hear its answer, with the openai package; a file to keep the answer in may be named."""

import asyncio
import base64
import os
import sys
import wave

from openai import AsyncOpenAI

RATE = 24_000  # samples a second, 16 bit, as the realtime interface has them
QUESTION = "What is the capital of France?"

client = AsyncOpenAI(base_url=f"{os.environ['MONOIZE_URL']}/v1", api_key=os.environ["MONOIZE_KEY"])


async def spoken(text: str) -> bytes:
    """In place of a microphone: the gateway's own voice."""
    model = os.environ.get("MONOIZE_SPEECH_MODEL", "hibari-heart")
    made = await client.audio.speech.create(
        model=model, voice="heart", input=text, response_format="pcm"
    )
    return made.content


async def main() -> None:
    silence = bytes(RATE * 2)  # a second of it: then the turn is over
    question = await spoken(QUESTION) + silence
    answer = b""
    async with client.realtime.connect(model=os.environ["MONOIZE_MODEL"]) as connection:
        for at in range(0, len(question), 9600):
            piece = base64.b64encode(question[at : at + 9600]).decode()
            await connection.input_audio_buffer.append(audio=piece)
        async for event in connection:
            match event.type:
                case "conversation.item.input_audio_transcription.completed":
                    print(f"heard: {event.transcript}")
                case "response.output_audio.delta":
                    answer += base64.b64decode(event.delta)
                case "response.output_audio_transcript.done":
                    print(f"said:  {event.transcript} ({len(answer) / RATE / 2:.1f} s)")
                case "response.done":
                    break
                case "error":
                    raise SystemExit(event.error.message)
    if len(sys.argv) > 1:
        with wave.open(sys.argv[1], "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(answer)


asyncio.run(main())
