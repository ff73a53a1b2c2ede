"""The extras that `dev` brings work here: tests that need them would otherwise leave themselves out."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import metadata, requires, version

import pytest
from packaging.requirements import Requirement

MODULES = {
    "syntax": ("tree_sitter", "tree_sitter_json"),
    "browser": ("playwright.async_api",),
    "otel": ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    "search": ("ddgs",),
    "redis": ("redis.asyncio", "hiredis"),
    "web": ("textual_serve.server",),
    "tools": ("pypdfium2", "pillow_heif", "resvg_py"),
}
"""What the product imports of each."""


def of_extra(extra: str) -> list[Requirement]:
    """What an extra requires."""
    found = map(Requirement, requires("mcpdesk") or ())
    return [each for each in found if each.marker is not None and each.marker.evaluate({"extra": extra})]


def test_every_extra_of_the_tests_is_known_here() -> None:
    extras = set(metadata("mcpdesk").get_all("Provides-Extra") or ()) - {"dev"}
    brought = {each.name for each in of_extra("dev")}
    assert {extra for extra in extras if {each.name for each in of_extra(extra)} <= brought} == set(MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("extra", list(MODULES))
def test_an_extra_is_installed_as_required_and_can_be_imported(extra: str) -> None:
    needed = of_extra(extra)
    assert needed
    for each in needed:
        assert each.specifier.contains(version(each.name), prereleases=True), (
            f"{each.name} {version(each.name)}"
        )
    for module in MODULES[extra]:
        import_module(module)
