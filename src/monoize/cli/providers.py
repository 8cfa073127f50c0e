"""`monoize providers`: who is asked, in which order, and whether they answer."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from monoize.cli._desk import AsJson, Config, Desk, run, show, show_json
from monoize.cli._state import settings_in_force, state_of
from monoize.errors import NotFound
from monoize.routing.catalog import LOCAL_CHANNEL
from monoize.server.api.channels import ChannelTest, tested
from monoize.server.api.provider_view import ProviderView, file_view, stored_view
from monoize.server.api.providers import everything
from monoize.store import providers

__all__ = ["app"]

app = App(
    name="providers",
    help="Providers: those of the config file, then those of the database. Change them in the file or over /api.",
)

ProviderId = Annotated[str, Parameter(help="id of the provider")]


@app.command(name="list")
def show_all(*, as_json: AsJson = False, config: Config = None) -> int:
    """List providers in the order in which they are asked."""

    async def work(desk: Desk) -> None:
        found = await _listed(desk)
        if as_json:
            show_json({"data": found})
            return
        rows = [
            (p.id, p.type, p.source, _use(p), len(p.models), ", ".join(c.id for c in p.channels))
            for p in found
        ]
        headings = ("provider", "type", "source", "enabled", "models", "channels")
        show(headings, rows, empty="There are no providers yet.")

    return run(config, work)


@app.command(name="show")
def show_one(provider: ProviderId, *, as_json: AsJson = False, config: Config = None) -> int:
    """Show one provider with its models and channels; never a secret."""

    async def work(desk: Desk) -> None:
        named = {p.id: p for p in reversed(await _listed(desk))}  # the file's wins
        if provider not in named:
            await desk.read(partial(providers.get, provider_id=provider))  # says that there is none
        found = named[provider]
        if as_json:
            show_json(found)
            return
        _show_one(found)

    return run(config, work)


@app.command(name="test")
def try_channels(
    provider: ProviderId,
    channel: Annotated[
        str | None, Parameter(help="id of the channel; without one each is tried")
    ] = None,
    *,
    model: Annotated[
        str | None, Parameter(help="the model to ask for; else the first that has a name")
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Send a small request over a channel and say how it went; it may cost a few tokens."""
    results: dict[str, ChannelTest] = {}

    async def work(desk: Desk) -> None:
        async with state_of(desk) as state:
            known = next((p for p in state.catalog.configured if p.id == provider), None)
            if known is None:
                raise NotFound(f"there is no provider {provider!r}")
            each = [c.id for c in known.channels] or [LOCAL_CHANNEL.id]
            for name in each if channel is None else [channel]:
                results[name] = await tested(state, provider, name, model)
        if as_json:
            show_json({"data": [{"channel": name, **_fields(r)} for name, r in results.items()]})
            return
        rows = [
            (name, "yes" if r.success else "no", r.latency_ms, r.model, r.error)
            for name, r in results.items()
        ]
        show(("channel", "answers", "ms", "model", "error"), rows, empty="")

    code = run(config, work)
    failed = [name for name, result in results.items() if not result.success]
    if code == 0 and failed:
        print(f"monoize: no answer over {', '.join(failed)}", file=sys.stderr)
    return code or int(bool(failed))


async def _listed(desk: Desk) -> list[ProviderView]:
    own = settings_in_force(desk).providers
    names = {provider.id for provider in own}
    stored = await desk.read(everything)
    return [
        *map(file_view, own),
        *(stored_view(provider, shadowed=provider.id in names) for provider in stored),
    ]


def _use(provider: ProviderView) -> str:
    if provider.shadowed:
        return "no (the file has its id)"
    return "yes" if provider.enabled else "no"


def _fields(result: ChannelTest) -> dict[str, object]:
    return {name: getattr(result, name) for name in result.__struct_fields__}


def _show_one(provider: ProviderView) -> None:
    rows = [
        ("provider", provider.id),
        ("type", provider.type),
        ("source", provider.source),
        ("enabled", _use(provider)),
        ("rules", ", ".join(rule.transform for rule in provider.transforms) or "none"),
    ]
    show(("", ""), rows, empty="")
    print()
    models = [(name, row.redirect, row.multiplier or 1) for name, row in provider.models.items()]
    show(("model", "is called there", "multiplier"), models, empty="")
    print()
    channels = [
        (c.id, c.base_url, c.weight, c.enabled, c.has_api_key, ", ".join(c.header_names))
        for c in provider.channels
    ]
    show(
        ("channel", "address", "weight", "enabled", "has a key", "headers"),
        channels,
        empty="It has no channels.",
    )
