"""Table of the optional capabilities. Each is a folder here that can be deleted; nothing else imports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from mcpdesk.feature import Feature

FEATURES: dict[str, frozenset[str]] = {
    "exports": frozenset({"commands", "exporters", "exchange_copies"}),
    "openapi": frozenset({"folder_sources"}),
    "packaging": frozenset({"commands"}),
    "telemetry": frozenset({"host_parts"}),
    "web_tools": frozenset({"builtin_tools"}),
}
"""Features in the order in which they are asked, each with the members of `Feature` that it overrides.

A feature is imported when one of these members is used. A feature without a folder is left out.
"""
VARIABLE = "MCPDESK_DISABLED_FEATURES"
"""Environment variable of the setting `disabled_features`, which has no other source.

It is read here, because commands are listed before settings are resolved.
"""


def offering(member: str) -> Iterator[Feature]:
    """Yield the features that override a member of `Feature` and are not disabled."""
    disabled = {each.strip() for each in os.environ.get(VARIABLE, "").split(",")}
    for name, members in FEATURES.items():
        if member in members and name not in disabled and _is_installed(name):
            yield _feature(name)


@cache
def _feature(name: str) -> Feature:
    feature: Feature = import_module(f"mcpdesk.features.{name}").FEATURE
    return feature


@cache
def _is_installed(name: str) -> bool:
    return (Path(__file__).parent / name / "__init__.py").is_file()
