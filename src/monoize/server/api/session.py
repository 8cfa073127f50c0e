"""Sessions: who is signed in by this browser's cookie, signing in, signing out."""

from __future__ import annotations

import msgspec

from monoize.errors import InvalidRequest
from monoize.pipeline.call import Answer
from monoize.server import sessions
from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body
from monoize.server.sessions import Arrival, SessionView

__all__ = ["ENDPOINTS", "answer_of"]


class Credentials(Body, frozen=True, kw_only=True):
    """A username with a password, or a key; nothing: whoever is at the machine itself, or whom a trusted proxy names."""

    username: str | None = None
    password: str | None = None
    key: str | None = None


def answer_of(arrival: Arrival) -> Answer:
    headers = {"cache-control": "no-store"}
    if arrival.cookie is not None:
        headers["set-cookie"] = arrival.cookie
    body = msgspec.json.encode(arrival.view)
    return Answer(status=200, content_type="application/json", headers=headers, body=body)


@endpoint("GET", "/api/session", role=None, answer=SessionView)
async def show_session(context: Context, given: Given[None, None]) -> SessionView:
    """Who is signed in by the cookie of this call, and which ways to sign in there are."""
    del given
    return await sessions.look(context.request, context.state)


@endpoint(
    "POST",
    "/api/session",
    role=None,
    body=Credentials,
    body_required=False,
    answer=SessionView,
    refusals=(401, 403, 429),
)
async def create_session(context: Context, given: Given[None, Credentials]) -> Answer:
    """Sign in; the cookie of the answer stands for a key wherever none is sent. Too many tries have to wait."""
    form = given.body
    if (form.username is None) != (form.password is None):
        param = "username" if form.username is None else "password"
        raise InvalidRequest(f"{param}: both are due, or a key", param=param)
    # Nobody is signed in by a page from elsewhere, not even as somebody else.
    context.state.access.check_own_page(context.request.headers)
    arrival = await sessions.sign_in(
        context.request, context.state, form.username, form.password, form.key
    )
    return answer_of(arrival)


@endpoint("DELETE", "/api/session", role=None, answer=SessionView, refusals=(403,))
async def delete_session(context: Context, given: Given[None, None]) -> Answer:
    """Sign out: the session ends here, not only in the browser."""
    del given
    return answer_of(await sessions.sign_out(context.request, context.state))


ENDPOINTS = (show_session, create_session, delete_session)
