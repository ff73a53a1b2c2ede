"""Optional features.

Each feature is a folder here. The folder can be deleted, because no other code imports it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.feature_table import FEATURES

if TYPE_CHECKING:
    from mcpdesk.feature import Feature
    from mcpdesk.protocol.jsonrpc import JSONObject

T = TypeVar("T")
VARIABLE = "MCPDESK_DISABLED_FEATURES"
"""Environment variable of the setting `disabled_features`. Other sources of the setting have no effect,
because commands are listed before settings are resolved.
"""

NO_FEATURE = "Its feature is switched off by disabled_features, or its folder was deleted."
"""Hint of errors about a capability that no feature offers."""


def features_with(member: str) -> Iterator[Feature]:
    """Yield the features that override a member of `Feature` and are not disabled."""
    disabled_names = os.environ.get(VARIABLE, "").replace(",", " ").split()
    for name, members in FEATURES.items():
        if member in members and name not in disabled_names and _is_installed(name):
            yield _feature(name)


def client_extensions() -> dict[str, JSONObject]:
    """Return the extensions of MCP that a core declares to servers as their client: settings by id."""
    features = features_with("client_extensions")
    return {
        extension_id: settings
        for feature in features
        for extension_id, settings in feature.client_extensions.items()
    }


def required(candidates: Iterable[T | None], problem: str) -> T:
    """Return the first candidate that is not None.

    Raises: DeskUserError with the problem if every candidate is None.
    """
    result = next((each for each in candidates if each is not None), None)
    if result is None:
        raise DeskUserError(problem, NO_FEATURE)
    return result


@cache
def _feature(name: str) -> Feature:
    feature: Feature = import_module(f"mcpdesk.features.{name}").FEATURE
    return feature


@cache
def _is_installed(name: str) -> bool:
    return (Path(__file__).parent / name / "__init__.py").is_file()
