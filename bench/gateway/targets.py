"""What is measured: how each gateway is found, configured and started, and which cells it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from gateway.cells import KEY, Cell
from gateway.processes import free_port

TYPES = {
    "chat": "chat_completion",
    "messages": "messages",
    "responses": "responses",
    "gemini": "gemini",
}


@dataclass(frozen=True)
class Launch:
    """How to start a gateway in a folder, and how callers reach it."""

    command: list[str]
    port: Callable[[], int | None]
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""  # before the path
    model: str | None = None  # its own name of the model
    patience: float = 60.0


@dataclass(frozen=True)
class Target:
    name: str
    version: str
    has: Callable[[Cell], bool]
    launch: Callable[[Cell, int, Path], Launch]  # cell, port of the provider, folder


@dataclass(frozen=True)
class Absent:
    name: str
    why: str


# --- this gateway: one provider, one key, everything else as it comes ---


def settings(provider: int, protocol: str = "chat", **more: Any) -> dict[str, Any]:
    """A config; `more` goes to the top level."""
    return {
        "providers": [provided("mock", provider, protocol, {"*": {}})],
        "keys": [{"name": "bench", "key": KEY, "username": "bench"}],
        **more,
    }


def provided(name: str, port: int, protocol: str, models: Mapping[str, Any]) -> dict[str, Any]:
    base = f"http://127.0.0.1:{port}/{'v1beta' if protocol == 'gemini' else 'v1'}"
    return {
        "id": name,
        "type": TYPES[protocol],
        "models": dict(models),
        "channels": [{"id": "main", "base_url": base, "api_key": "sk-mock"}],
    }


def launched(config: Mapping[str, Any], folder: Path, workers: int = 1) -> Launch:
    file = folder / "monoize.yaml"
    file.write_text(yaml.safe_dump(dict(config), sort_keys=False), "utf-8")
    port = free_port()
    command = [sys.executable, "-m", "monoize", "serve", "--config", str(file)]
    return Launch([*command, "--port", str(port), "--workers", str(workers)], lambda: port)


def monoize() -> Target:
    def launch(cell: Cell, provider: int, folder: Path) -> Launch:
        return launched(settings(provider, cell.provider), folder)

    return Target("monoize", version("monoize"), lambda _: True, launch)


# --- nginx: what copying bytes costs ---

_NGINX = """\
daemon off; worker_processes 1; error_log stderr; pid {folder}/pid;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_buffer_size 64k;
  {temporary}
  upstream provider {{ server 127.0.0.1:{provider}; keepalive 512; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""
_NGINX_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx() -> Target | Absent:
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        return Absent("nginx", "it is not installed, so there is no limit to compare with")
    told = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stderr

    def launch(_: Cell, provider: int, folder: Path) -> Launch:
        port = free_port()
        temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in _NGINX_FOLDERS)
        words = {"folder": folder, "temporary": temporary, "provider": provider, "port": port}
        (folder / "nginx.conf").write_text(_NGINX.format(**words))
        return Launch([program, "-p", str(folder), "-c", str(folder / "nginx.conf")], lambda: port)

    return Target("nginx", told.rpartition("/")[2].strip(), lambda cell: cell.is_same, launch)


# --- peers, from an environment that the user names ---

_LITELLM_CELLS = {
    "chat-chat",
    "messages-chat",
    "chat-messages",
    "messages-messages",
    "messages-responses",
}
_TENSORZERO = """\
[gateway]
observability.enabled = false

[models.bench]
routing = ["mock"]

[models.bench.providers.mock]
type = "openai"
model_name = "gpt-4o-mini"
api_base = "http://127.0.0.1:{provider}/v1/"
api_key_location = "none"
"""
# Its gateway comes with its client library; the client tells where it listens.
_TENSORZERO_SERVER = """\
import pathlib, signal, sys
import openai, tensorzero
client = openai.OpenAI(api_key="none")
tensorzero.patch_openai_client(client, config_file=sys.argv[1], async_setup=False)
pathlib.Path(sys.argv[2]).write_text(str(client.base_url))
signal.pause()
"""


def litellm(environment: Path | None) -> Target | Absent:
    found = _installed("litellm", environment)
    if isinstance(found, Absent):
        return found
    folder_of_programs, told = found

    def launch(cell: Cell, provider: int, folder: Path) -> Launch:
        url = f"http://127.0.0.1:{provider}"
        models = [
            _litellm_model("gpt-4o-mini", "openai", f"{url}/v1"),
            _litellm_model("claude-sonnet-4-5", "anthropic", url),
        ]
        to_chat = {"use_chat_completions_url_for_anthropic_messages": cell.provider == "chat"}
        config = {
            "model_list": models,
            "general_settings": {"master_key": KEY},
            "litellm_settings": {"telemetry": False, **to_chat},
        }
        file, port = folder / "litellm.yaml", free_port()
        file.write_text(yaml.safe_dump(config))
        command = [str(folder_of_programs / "litellm"), "--config", str(file)]
        command += ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        words = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        path = f"{folder_of_programs}:{os.environ.get('PATH', '')}"
        return Launch(command, lambda: port, {**words, "PATH": path}, patience=180.0)

    return Target("litellm", told, lambda cell: cell.name in _LITELLM_CELLS, launch)


def _litellm_model(name: str, vendor: str, url: str) -> dict[str, Any]:
    parameters = {"model": f"{vendor}/{name}", "api_base": url, "api_key": "sk-mock"}
    return {"model_name": name, "litellm_params": parameters}


def tensorzero(environment: Path | None) -> Target | Absent:
    found = _installed("tensorzero", environment)
    if isinstance(found, Absent):
        return found
    folder_of_programs, told = found

    def launch(_: Cell, provider: int, folder: Path) -> Launch:
        config, server, address = (folder / name for name in ("t.toml", "serve.py", "address"))
        config.write_text(_TENSORZERO.format(provider=provider))
        server.write_text(_TENSORZERO_SERVER)

        def port() -> int | None:
            listening = re.search(r":(\d+)/", address.read_text() if address.exists() else "")
            return int(listening[1]) if listening else None

        command = [str(folder_of_programs / "python"), str(server), str(config), str(address)]
        words = {"TOKIO_WORKER_THREADS": "1", "OPENAI_API_KEY": "none", "RUST_LOG": "error"}
        return Launch(command, port, words, "/openai", "tensorzero::model_name::bench")

    return Target("tensorzero", told, lambda cell: cell.name == "chat-chat", launch)


def _installed(package: str, environment: Path | None) -> tuple[Path, str] | Absent:
    """The environment's programs and the package's version."""
    if environment is None:
        return Absent(package, f"no environment was named (--{package} FOLDER)")
    found = list(environment.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    if not found:
        return Absent(package, f"it is not installed in {environment.name}")
    return environment.resolve() / "bin", found[0].name.split("-")[1].removesuffix(".dist")
