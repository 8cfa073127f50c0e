"""A key that may use some models sees those and no others."""

import pytest

from fakes.caller import Caller
from fakes.gateway import GatewayThread


@pytest.fixture(scope="module")
def port():
    gateway = GatewayThread(
        {
            "server": {"host": "127.0.0.1"},
            "database": None,
            "providers": [
                {
                    "id": "p",
                    "type": "chat_completion",
                    "models": {"gpt-a": {}, "gpt-b": {}, "claude-c": {}},
                    "channels": [{"id": "main", "base_url": "http://127.0.0.1:9"}],
                }
            ],
            "keys": [
                {"name": "all", "key": "sk-everything"},
                {"name": "some", "key": "sk-something", "models": ["gpt-*"]},
            ],
        }
    )
    yield gateway.port
    gateway.stop()


@pytest.mark.parametrize(
    ("key", "names"),
    [("sk-everything", ["claude-c", "gpt-a", "gpt-b"]), ("sk-something", ["gpt-a", "gpt-b"])],
)
def test_lists_what_the_key_may_use(port, key, names):
    caller = Caller(port, {"authorization": f"Bearer {key}"})
    assert [row["id"] for row in caller.send("GET", "/v1/models").json["data"]] == names
    listed = caller.send("GET", "/v1beta/models").json["models"]
    assert [row["name"].removeprefix("models/") for row in listed] == names


def test_tells_that_a_model_is_not_for_this_key(port):
    caller = Caller(port, {"authorization": "Bearer sk-something"})
    assert caller.send("GET", "/v1/models/gpt-a").status == 200
    refused = caller.send("GET", "/v1/models/claude-c")
    assert (refused.status, refused.json["error"]["code"]) == (403, "model_not_allowed")
