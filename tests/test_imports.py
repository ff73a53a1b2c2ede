"""Allowed imports between packages, and the modules that cheap commands load at start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mcpdesk"
EVERYWHERE = frozenset(
    {"byte_size", "errors", "late_pattern", "plain_text", "portable_files", "private_files", "version"}
)
"""Modules of the root that anything may import."""

ALLOWED: dict[str, set[str]] = {
    "byte_size": set(),
    "errors": set(),
    "late_pattern": set(),
    "plain_text": set(),
    "portable_files": set(),
    "private_files": set(),
    "version": set(),
    "paths": {"transports.rendezvous"},
    "setting_values": set(),
    "settings": {"setting_values", "paths", "feature_table"},
    "__main__": {
        "transports.clean_terminal", "transports.pump", "transports.relay", "cli.main", "runtime.lone_core",
        "cli.printing", "features",
    },
    "__init__": {"server"},
    "feature": set(),
    "feature_table": set(),
    "protocol": set(),
    "recorder": {"protocol"},
    "jobs": {"protocol"},
    "inbox": {"protocol"},
    "storage": {"protocol"},
    "auth": {"protocol"},
    "server": {"protocol", "jobs", "inbox", "storage", "auth"},
    "tools": {"server", "jobs", "inbox", "storage", "protocol", "feature", "features"},
    "transports": {"protocol", "auth", "recorder", "feature", "features"},
    "client": {"protocol", "recorder", "auth", "inbox"},
    "upstream": {"client", "protocol", "recorder", "jobs", "inbox"},
    "hosting": {
        "protocol", "recorder", "jobs", "inbox", "storage", "auth", "server", "tools", "transports", "client",
        "upstream", "setting_values", "settings", "paths", "features",
    },
    "link": {
        "client", "upstream", "hosting", "recorder", "inbox", "jobs", "server", "protocol",
        "transports.rendezvous", "feature", "features",
    },
    "tui": {
        "link", "recorder", "inbox.question", "inbox.answers", "protocol", "paths", "feature", "features",
    },
    "testing": {
        "connect", "client", "upstream", "protocol", "recorder", "server", "hosting", "settings", "features",
    },
    "connect": {
        "client", "upstream", "protocol", "auth", "server", "hosting", "recorder.record", "settings",
    },
    "bridge": {"connect", "client", "protocol", "auth", "server", "hosting", "upstream.target_transport"},
    "runtime": {
        "connect", "protocol", "hosting", "server", "link", "transports", "feature", "features",
    },
    "cli": {
        "connect", "runtime",
        "protocol", "client", "upstream", "bridge", "recorder", "inbox", "auth", "server", "transports",
        "hosting", "link", "tui", "setting_values", "settings", "paths", "testing", "feature", "features",
    },
    "features": {
        "feature", "feature_table", "protocol", "connect", "client", "upstream", "bridge", "recorder", "jobs",
        "runtime", "inbox",
        "storage", "auth", "server", "tools", "transports", "hosting", "link", "tui", "setting_values",
        "settings", "paths", "testing", "cli",
    },
}  # fmt: skip
"""Package -> what of ours it may import, besides itself and `EVERYWHERE`. `a.b` allows that module only."""

FOREIGN: dict[str, set[str]] = {
    "protocol": {"asyncio", "time", "socket", "threading", "pathlib", "aiohttp", "textual", "rich", "click"},
    "recorder": {"asyncio", "aiohttp", "textual", "rich", "click"},
    "jobs": {"aiohttp", "textual", "rich", "click"},
    "inbox": {"aiohttp", "textual", "rich", "click"},
    "auth": {"aiohttp", "textual", "rich", "click"},
    "server": {"aiohttp", "textual", "rich", "click"},
    "tools": {"textual", "rich", "click"},
    "transports": {"textual", "rich", "click"},
    "client": {"textual", "rich", "click"},
    "upstream": {"textual", "rich", "click"},
    "hosting": {"textual", "rich", "click"},
    "link": {"textual", "rich", "click"},
    "runtime": {"click"},
    "connect": {"textual", "rich", "click"},
    "bridge": {"textual", "rich", "click"},
    "testing": {"textual", "rich", "click"},
    "tui": {"aiohttp", "click"},
}
"""Package -> libraries it never imports, not even inside a function."""

LAZY: dict[str, set[str]] = {
    "": {"jwt", "PIL", "bs4", "prometheus_client", "redis", "platformdirs", "uvloop"},
    "cli": {"textual", "aiohttp", "rich"},
    "runtime": {"textual", "aiohttp", "rich"},
    "hosting": {"aiohttp", "jsonschema_rs", "watchfiles"},
    "link": {"aiohttp"},
    "client": {"aiohttp", "jsonschema_rs"},
    "upstream": {"aiohttp", "jsonschema_rs"},
    "connect": {"aiohttp", "jsonschema_rs"},
    "bridge": {"aiohttp", "jsonschema_rs"},
    "server": {"jsonschema_rs"},
}
"""Package ("" = every one) -> libraries imported inside functions only, because they cost start-up time."""

LATE = {"mcpdesk.client.answers.connection_pool"}
"""Modules that are themselves imported inside functions only, and may import such libraries."""


def is_ours(name: str) -> bool:
    """Whether a dotted name is a module or package of ours."""
    place = PACKAGE.parent.joinpath(*name.split("."))
    return name.startswith("mcpdesk.") and (place.is_dir() or place.with_suffix(".py").exists())


class Import(ast.NodeVisitor):
    """Collects (module, line, is inside a function) of every import outside `TYPE_CHECKING`."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, bool]] = []
        self._depth = 0

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [(alias.name, node.lineno, self._depth > 0) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            name = full if is_ours(full) else node.module or ""
            self.found.append((name, node.lineno, self._depth > 0))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        for part in node.orelse if name == "TYPE_CHECKING" else [*node.body, *node.orelse]:
            self.visit(part)


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module of ours, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def imports() -> list[tuple[str, str, str, bool]]:
    """Package, `file:line`, imported module, and whether it happens inside a function."""
    return list(_imports())


def _imports() -> Iterator[tuple[str, str, str, bool]]:
    for path, tree in trees().items():
        relative = path.relative_to(PACKAGE)
        visitor = Import()
        visitor.visit(tree)
        package = relative.parts[0].removesuffix(".py")
        for module, line, inside in visitor.found:
            yield package, f"{relative}:{line}", module, inside


@pytest.mark.slow
def test_every_arrow_between_packages_is_allowed() -> None:
    wrong = []
    for package, place, module, _ in imports():
        name = module.removeprefix("mcpdesk.")
        if module == name or name == "mcpdesk":
            continue
        target = name.split(".")[0]
        allowed = ALLOWED.get(package, set())
        if target == package or target in EVERYWHERE | allowed or ".".join(name.split(".")[:2]) in allowed:
            continue
        wrong.append(f"{place} imports {module}")
    assert wrong == []


@pytest.mark.slow
def test_only_the_table_of_features_imports_them() -> None:
    wrong = [
        f"{place} imports {module}"
        for package, place, module, _ in imports()
        if module.startswith("mcpdesk.features.") and package != "features"
    ]
    assert wrong == []


@pytest.mark.slow
def test_features_do_not_import_each_other() -> None:
    wrong = []
    for package, place, module, _ in imports():
        own = place.split("/")[1] if package == "features" else ""
        if own and module.startswith("mcpdesk.features.") and module.split(".")[2] != own:
            wrong.append(f"{place} imports {module}")
    assert wrong == []


def test_every_package_has_a_row_in_the_table() -> None:
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE.rglob("*.py")}
    assert found <= set(ALLOWED)


@pytest.mark.slow
def test_no_package_imports_a_library_it_has_to_live_without() -> None:
    wrong = [
        f"{place} imports {module}"
        for package, place, module, _ in imports()
        if module.split(".")[0] in FOREIGN.get(package, set())
    ]
    assert wrong == []


@pytest.mark.slow
def test_expensive_libraries_are_imported_inside_functions() -> None:
    wrong = [
        f"{place} imports {module}"
        for package, place, module, inside in imports()
        if not inside
        and (module in LATE or module.split(".")[0] in LAZY[""] | LAZY.get(package, set()))
        and place.partition(".py")[0].replace("/", ".")
        not in {each.removeprefix("mcpdesk.") for each in LATE}
    ]
    assert wrong == []


@pytest.mark.slow
def test_relative_imports_are_not_used() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert wrong == []


def loaded_by(statement: str) -> set[str]:
    """Top-level names of everything loaded after `statement` ran in a fresh interpreter."""
    code = f"{statement}\nimport sys; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return {name.split(".")[0] for name in output.stdout.split()}


@pytest.mark.process
@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        (
            "import mcpdesk.transports.relay",
            {"asyncio", "socket", "subprocess", "re", "json", "orjson", "msgspec", "click", "logging"},
        ),
        (
            "import mcpdesk.transports.pump",
            {"asyncio", "orjson", "msgspec", "click", "aiohttp", "textual", "logging"},
        ),
        ("import mcpdesk.cli.serve", {"aiohttp", "textual", "rich"}),
        ("import mcpdesk.cli.desk", {"aiohttp", "textual", "rich"}),
        ("import mcpdesk.cli.main", {"asyncio", "aiohttp", "textual", "rich", "orjson"}),
        ("import mcpdesk.bridge", {"aiohttp", "textual", "click", "jsonschema_rs"}),
        ("import mcpdesk", {"asyncio", "aiohttp", "textual", "click"}),
    ],
)
def test_command_loads_only_what_it_needs(statement: str, unwanted: set[str]) -> None:
    assert loaded_by(statement) & unwanted == set()


CATALOGUE = """
import asyncio, os, sys
from mcpdesk.cli.desk import desk_targets
from mcpdesk.cli.reach import given_reach
targets = desk_targets([sys.argv[1]], given_reach({}), agree=lambda file: None)
from mcpdesk.hosting.core_loop.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.tui import app
host = Host(plan_for(targets.folders, {"state_dir": sys.argv[2]}, {}, withholds_invalid=True))
link = LocalLink(host)
host.load()
(server,) = link.view().servers
assert link.catalogue(server.name).items, "no catalogue"
print(*sys.modules)
"""
"""Steps of a desk from its start to its first catalogue, without a terminal."""
LATER = {
    "mcpdesk.client.child_process",
    "mcpdesk.client.config_files",
    "mcpdesk.client.connection",
    "mcpdesk.client.discovery",
    "mcpdesk.client.hints",
    "mcpdesk.client.trust",
    "mcpdesk.link.local.desk_client",
    "mcpdesk.protocol.reading.lenient_json",
    "mcpdesk.protocol.reading.text_encoding",
    "mcpdesk.transports.http.http_service",
    "mcpdesk.upstream.upstream",
    "aiohttp",
    "email",
    "html",
    "importlib.metadata",
    "jsonschema_rs",
    "watchfiles",
    "zipfile",
}
"""Modules that a desk on a folder needs after its first catalogue only."""


@pytest.mark.process
def test_first_catalogue_of_a_folder_needs_no_client_and_no_http(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "add.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    output = subprocess.run(
        [sys.executable, "-c", CATALOGUE, str(folder), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert set(output.stdout.split()) & LATER == set()
