"""Text that would be markup if anybody let it, in every place where the gateway keeps text of others."""

from __future__ import annotations

import http.client
from urllib.parse import quote

from browser.world import Json, Place, png, spoken

EVIL = '"><mz-evil><img src=x onerror=alert(1)>'
SCRIPT = "</script><script>alert(2)</script><mz-evil>"
LINK = "[a](javascript:alert(3)) javascript:alert(3) <a href=javascript:alert(3)>"
EVERYTHING = f"{EVIL} {SCRIPT} {LINK} {{{{7*7}}}} ${{7*7}}"
ADMIN = "sk-admin-0123456789abcdef"
PASSWORD = "a long enough pass phrase"

# What markup would have made, in the page and in the shadows of its elements.
FOUND = """() => {
  const found = [];
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      const name = element.localName;
      if (name === "mz-evil" || element.getAttribute("src") === "x") found.push(name);
      if (name === "script" && element.textContent.includes("alert(")
        && element.type !== "application/json") found.push(name);
      for (const {name: attribute, value} of element.attributes) {
        if (attribute.startsWith("on")) found.push(`${name}[${attribute}]`);
        if (/^\\s*javascript:/i.test(value) && ["href", "src", "action"].includes(attribute))
          found.push(`${name}[${attribute}=${value}]`);
      }
      if (element.shadowRoot) walk(element.shadowRoot);
    }
  };
  walk(document);
  return found;
}"""


def keys() -> list[Json]:
    return [{"name": EVIL, "key": ADMIN, "role": "admin", "username": EVIL}]


def feed(place: Place) -> Json:
    """Fills the gateway with it; the ids of what has a page of its own."""

    def good(method: str, path: str, body: Json | None = None) -> Json:
        return place.good(method, path, body, ADMIN)

    call = ("get_weather", {"city": EVERYTHING})
    place.stage.lines_of["hostile"] = (spoken(EVERYTHING, EVERYTHING, call),)
    base = place.stage.base_url("chat_completion")
    channel = {"id": "main", "base_url": base, "api_key": "sk-x"}
    models = {"hostile": {}, EVIL: {"redirect": "hostile"}}
    prompt = {"content": EVERYTHING, "position": "append"}
    rules = [{"transform": "inject_system_prompt", "phase": "request", "config": prompt}]
    provider = {"id": "evil", "type": "chat_completion", "models": models, "channels": [channel]}
    good("POST", "/api/providers", {**provider, "transforms": rules})
    user = good("POST", "/api/users", {"username": SCRIPT, "password": PASSWORD, "role": "admin"})
    for name in (EVIL, SCRIPT, LINK):
        good(
            "POST", "/api/keys", {"user_id": user["id"], "name": name, "policy": {"capture": "all"}}
        )
    key = good(
        "POST",
        "/api/keys",
        {"user_id": user["id"], "name": EVERYTHING[:60], "policy": {"capture": "all"}},
    )
    said = {"messages": [{"role": "user", "content": EVERYTHING}]}
    asked = {"model": EVIL, **said}
    assert place.call("POST", "/v1/chat/completions", asked, key["key"])[0] == 200
    refused = {"model": f"nobody-has-{EVIL}", **said}
    assert place.call("POST", "/v1/chat/completions", refused, key["key"])[0] == 404
    place.stage.failing["messages"] = EVERYTHING
    failing = {"model": "messages.text", "max_tokens": 9, **said}
    assert place.call("POST", "/v1/messages", failing, key["key"])[0] >= 500
    run = good("POST", "/v1/agent/runs", {"task": EVERYTHING, "model": EVIL, "page": "chat"})
    good("PUT", "/api/settings/reasoning_suffix_map", {"value": {EVIL: "high"}})
    good("PUT", f"/api/prices/{quote(EVIL, safe='')}", {"rates": {"input": "1", "output": "2"}})
    _store(place, EVIL)
    logs = good("GET", "/api/logs?limit=10")  # the newest is the run's
    return {
        "run": run["run_id"],
        "key": key["id"],
        "requests": [row["request_id"] for row in logs["rows"][1:]],
    }


def _store(place: Place, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    headers = {"authorization": f"Bearer {ADMIN}", "content-type": "image/png"}
    connection.request("POST", f"/v1/media?name={quote(name, safe='')}", png(9, 99, 200), headers)
    assert connection.getresponse().status == 201
    connection.close()
