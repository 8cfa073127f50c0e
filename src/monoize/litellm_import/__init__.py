"""A LiteLLM proxy config as a config of ours, with a note for everything that could not come along.

LiteLLM draws one of the deployments of a name, and asks other names when all of them fail. Here a name has a waterfall:
providers in order, channels by weight. So each name becomes a list of steps, its own and then those of its fallbacks,
and the steps of all names are packed into as few providers as keep every list in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monoize.litellm_import import sections
from monoize.litellm_import.deployments import deployments
from monoize.litellm_import.providers import providers
from monoize.litellm_import.report import Note, Report, section
from monoize.litellm_import.waterfalls import waterfalls

__all__ = ["Note", "imported"]


def imported(source: Mapping[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    """Our config, and what it does not say; the config passes `monoize check` once its variables are set."""
    report = Report(section(source, "environment_variables"))
    router, tuning = section(source, "router_settings"), section(source, "litellm_settings")
    general = section(source, "general_settings")
    found = list(deployments(source, report))
    steps = waterfalls(found, router, tuning, report)
    config = {
        "server": sections.server(router, tuning, general, report),
        "database": sections.database(general, report),
        "redis": sections.redis(router, tuning, report),
        "providers": providers(steps, sections.retries(router, tuning)),
        "keys": sections.keys(general, report),
        "settings": sections.settings(found, router, tuning, report),
    }
    sections.note_the_rest(source, router, tuning, general, report)
    kept = {name: value for name, value in config.items() if value or name == "providers"}
    return kept, report.notes
