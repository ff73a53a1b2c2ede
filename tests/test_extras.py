"""Extras: those in `dev` work here, and the program works without any of them and without its screen."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import metadata, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.features import having

MODULES = {
    "syntax": ("tree_sitter", "tree_sitter_json"),
    "browser": ("playwright.async_api",),
    "otel": ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    "search": ("ddgs",),
    "redis": ("redis.asyncio", "hiredis"),
    "web": ("textual_serve.server",),
    "tools": ("PIL", "markdownify", "bs4", "pypdfium2", "pillow_heif", "resvg_py"),
}
"""Modules that the product imports, by extra."""
SCREEN = ("textual", "rich")
HELLO = Path(__file__).parent.parent / "sample_servers" / "hello"
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({absent!r}))
from mcpdesk.__main__ import main
sys.exit(main())
"""
"""Runs the program in a process where these modules cannot be imported."""


def of_extra(extra: str) -> list[Requirement]:
    """Requirements of an extra."""
    found = map(Requirement, requires("mcpdesk") or ())
    return [each for each in found if each.marker is not None and each.marker.evaluate({"extra": extra})]


def test_every_extra_of_the_tests_is_known_here() -> None:
    extras = set(metadata("mcpdesk").get_all("Provides-Extra") or ()) - {"dev", "test"}
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


def without(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program where neither the libraries of extras nor those of the screen can be imported."""
    absent = (*SCREEN, *(module for modules in MODULES.values() for module in modules))
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=absent), *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        *having(
            "cases",
            (("test", str(HELLO)), "4 cases: 4 passed"),
            (("test", str(HELLO), "--over", "stdio"), "4 cases: 4 passed"),
        ),
        *having("contract", (("check", str(HELLO)), "tools/greet.py")),
        (("call", str(HELLO), "greet", "name=Ada", "--alone"), "Hello, Ada!"),
        (("schemas", str(HELLO), "--for", "openai"), "greet"),
    ],
    ids=[*having("cases", "test", "test over stdio"), *having("contract", "check"), "call", "schemas"],
)
def test_neither_extras_nor_the_screen_are_needed_to_test_and_to_call(
    arguments: tuple[str, ...], told: str
) -> None:
    finished = without(*arguments)
    assert finished.returncode == 0, finished.stderr
    assert told in finished.stdout


@pytest.mark.slow
def test_the_desk_without_its_libraries_says_what_is_missing() -> None:
    finished = without(str(HELLO))
    assert finished.returncode == 2
    assert finished.stderr.startswith("mcpdesk: The desk needs textual, which is not installed.")
