"""Store a file in the gateway, look at it, fetch a part of it, and remove it; nothing but Python itself is needed."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

BASE = f"{os.environ['MONOIZE_URL']}/v1/media"


def call(method: str, path: str = "", data: Any = None, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["authorization"] = f"Bearer {os.environ['MONOIZE_KEY']}"
    request = Request(BASE + path, data, named, method=method)  # noqa: S310 - the operator's own address
    with urlopen(request) as reply:  # noqa: S310
        return bytes(reply.read())


file = Path(sys.argv[1] if len(sys.argv) > 1 else __file__)
with file.open("rb") as handle:  # sent as it is read, however large it is
    size = str(file.stat().st_size)
    name = quote(file.name)
    made = json.loads(call("POST", f"?name={name}", handle, content_type="", content_length=size))
print(json.dumps(made["ref"]))  # what stands for the file in requests

first = call("GET", f"/{made['id']}", range="bytes=0-15")
print(f"{made['size']} bytes of {made['mime']}, beginning with {first[:8]!r}")

print(json.loads(call("DELETE", f"/{made['id']}")))
