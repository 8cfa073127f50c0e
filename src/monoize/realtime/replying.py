"""The model's side of a session: a response from its first word to its end, whichever end that is."""

from __future__ import annotations

import base64
from typing import Any, Literal

from monoize.realtime.items import (
    FunctionCall,
    FunctionOutput,
    InputImage,
    Item,
    Message,
    chat_messages,
)
from monoize.realtime.mistake import Trouble
from monoize.realtime.outputs import (
    Ended,
    active,
    call_of,
    change,
    change_output,
    change_sentence,
    close,
    message_of,
    open_item,
    open_message,
    tell_about,
)
from monoize.realtime.response_wire import response_wire
from monoize.realtime.scene import Scene
from monoize.realtime.state import (
    ArgumentsCame,
    CallCame,
    Hush,
    Prompt,
    Reply,
    Response,
    Sentence,
    SentenceEnded,
    SoundCame,
    Speak,
    TextCame,
    Think,
    ThinkingFailed,
    ThoughtEnded,
    Wish,
)
from monoize.realtime.wording import finished, speakable

__all__ = [
    "answer_turn",
    "arguments_came",
    "begin",
    "call_came",
    "cancel",
    "hear_again",
    "sentence_ended",
    "sound_came",
    "text_came",
    "thinking_failed",
    "thought_ended",
]


# --- the beginning ---


def answer_turn(scene: Scene) -> None:
    """The caller has stopped speaking."""
    begin(scene, Wish(config=scene.state.config, by_turn=True))


def begin(scene: Scene, wish: Wish) -> None:
    response = Response(id=scene.new_id("resp_"), wish=wish)
    scene.put(response=response)
    scene.replies("asked")
    scene.tell("response.created", response=response_wire(scene.state, response, "in_progress"))
    _think_once_heard(scene, response)


def hear_again(scene: Scene, item_id: str, trouble: Trouble | None = None) -> None:
    """What was said is known now, or will never be."""
    response = scene.state.response
    if response is None or scene.state.reply is not Reply.HEARING:
        return
    if trouble is not None and any(i.id == item_id for i in _context(scene, response)):
        _end(scene, "failed", trouble=trouble)
    else:
        _think_once_heard(scene, response)


def _think_once_heard(scene: Scene, response: Response) -> None:
    context = _context(scene, response)
    if any(item.id in scene.state.unheard for item in context):
        return
    if response.wish.by_turn and not _asks_something(context):
        _end(scene, "nothing heard")  # a cough, a door
        return
    scene.replies("heard")
    config = response.wish.config
    prompt = Prompt(
        messages=chat_messages(context, config.instructions),
        tools=config.tools,
        tool_choice=config.tool_choice,
        parallel_tool_calls=config.parallel_tool_calls,
        max_output_tokens=config.max_output_tokens,
    )
    scene.do(Think(response.id, prompt))


def _context(scene: Scene, response: Response) -> tuple[Item, ...]:
    """The conversation, or what the response was given instead; of items in both, as they stand now."""
    items, given = scene.state.items, response.wish.input
    if given is None:
        return items
    current = {item.id: item for item in items}
    return tuple(current.get(item.id, item) for item in given)


def _asks_something(context: tuple[Item, ...]) -> bool:
    """Whether there is anything after the last answer."""
    for item in reversed(context):
        match item:
            case Message(role="assistant", content=content) if content:
                return False
            case Message(role="user", content=content):
                has_image = any(isinstance(part, InputImage) for part in content)
                if has_image or chat_messages((item,), ""):
                    return True
            case FunctionOutput():
                return True
            case _:
                pass
    return False


# --- words ---


def text_came(scene: Scene, event: TextCame) -> None:
    response = _thinking(scene, event.response_id)
    if response is None or not event.text:
        return
    output = message_of(response)
    if output is None:
        if not event.text.strip():
            return
        output = open_message(scene, response)
    if response.wish.config.modality == "text":
        change_output(scene, output, text=output.text + event.text)
        tell_about(scene, "response.output_text.delta", output, content_index=0, delta=event.text)
        return
    found, unsaid = finished(active(scene).unsaid + event.text)
    change(scene, unsaid=unsaid)
    for sentence in found:
        _say(scene, sentence)


def _say(scene: Scene, text: str) -> None:
    response = active(scene)
    number = len(response.sentences)
    change(scene, sentences=(*response.sentences, Sentence(text=text)))
    scene.do(Speak(response.id, number, speakable(text)))


def thought_ended(scene: Scene, event: ThoughtEnded) -> None:
    response = _thinking(scene, event.response_id)
    if response is None:
        return
    unsaid = response.unsaid
    change(scene, finish=event.finish, usage=event.usage, unsaid="")
    if speakable(unsaid):
        _say(scene, unsaid)
    scene.replies("thought")
    status: Ended = "incomplete" if event.finish in _REASONS else "completed"
    for output in active(scene).outputs:
        if isinstance(output.item, FunctionCall) or response.wish.config.modality == "text":
            close(scene, output, status)
    _end_once_spoken(scene)


def thinking_failed(scene: Scene, event: ThinkingFailed) -> None:
    if scene.state.response is not None and scene.state.response.id == event.response_id:
        _end(scene, "failed", trouble=event.trouble)


# --- functions ---


def call_came(scene: Scene, event: CallCame) -> None:
    response = _thinking(scene, event.response_id)
    if response is None or call_of(response, event.index) is not None:
        return
    item = FunctionCall(
        id=scene.new_id("item_"),
        call_id=event.call_id or scene.new_id("call_"),
        name=event.name,
        status="in_progress",
    )
    open_item(scene, item, call=event.index)


def arguments_came(scene: Scene, event: ArgumentsCame) -> None:
    response = _thinking(scene, event.response_id)
    output = None if response is None else call_of(response, event.index)
    if output is None or not isinstance(output.item, FunctionCall) or not event.arguments:
        return
    change_output(scene, output, text=output.text + event.arguments)
    tell_about(
        scene,
        "response.function_call_arguments.delta",
        output,
        call_id=output.item.call_id,
        delta=event.arguments,
    )


# --- sound ---


def sound_came(scene: Scene, event: SoundCame) -> None:
    sentence = _sentence(scene, event.response_id, event.number)
    if sentence is None:
        return
    _begin_sentence(scene, event.number, sentence)
    change_sentence(scene, event.number, ms=sentence.ms + event.ms, rest_ms=event.rest_ms)
    output = message_of(active(scene))
    if output is not None:
        delta = base64.b64encode(event.sound).decode("ascii")
        tell_about(scene, "response.output_audio.delta", output, content_index=0, delta=delta)


def sentence_ended(scene: Scene, event: SentenceEnded) -> None:
    sentence = _sentence(scene, event.response_id, event.number)
    if sentence is None:
        return
    _begin_sentence(scene, event.number, sentence)
    change_sentence(scene, event.number, ended=True)
    _end_once_spoken(scene)


def _begin_sentence(scene: Scene, number: int, sentence: Sentence) -> None:
    """Its words go out with its first sound: what was not spoken was not said."""
    output = message_of(active(scene))
    if sentence.begun or output is None:
        return
    change_sentence(scene, number, begun=True)
    tell_about(
        scene,
        "response.output_audio_transcript.delta",
        output,
        content_index=0,
        delta=sentence.text,
    )


def _end_once_spoken(scene: Scene) -> None:
    response = active(scene)
    if scene.state.reply is Reply.SPEAKING and all(s.ended for s in response.sentences):
        _end(scene, "spoken")


# --- the end ---

Signal = Literal["spoken", "nothing heard", "cancelled", "failed"]
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def cancel(scene: Scene, reason: Literal["turn_detected", "client_cancelled"]) -> None:
    _end(scene, "cancelled", reason=reason)


def _end(
    scene: Scene, signal: Signal, *, reason: str | None = None, trouble: Trouble | None = None
) -> None:
    """Every response comes by here, once."""
    response = active(scene)
    status: str = signal if signal in ("cancelled", "failed") else "completed"
    if status == "completed" and response.finish in _REASONS:
        status, reason = "incomplete", _REASONS[response.finish]
    scene.do(Hush(response.id))
    for output in response.outputs:
        if output.item.status == "in_progress":
            close(scene, output, "completed" if status == "completed" else "incomplete")
    scene.replies(signal)
    done = active(scene)
    scene.put(response=None)
    details: dict[str, Any] | None = None
    if status != "completed":
        details = {"type": status}
        if reason is not None:
            details["reason"] = reason
        if trouble is not None:
            details["error"] = trouble.wire()
    scene.tell("response.done", response=response_wire(scene.state, done, status, details))


# --- what comes too late ---


def _thinking(scene: Scene, response_id: str) -> Response | None:
    """The response that these words are for; None: it is over, and they come too late."""
    response = scene.state.response
    if response is None or response.id != response_id or scene.state.reply is not Reply.THINKING:
        return None
    return response


def _sentence(scene: Scene, response_id: str, number: int) -> Sentence | None:
    response = scene.state.response
    if response is None or response.id != response_id or number >= len(response.sentences):
        return None
    found = response.sentences[number]
    return None if found.ended else found
