"""The folders look like the picture in CONTRIBUTING.md: each module has its test, the root what it should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcpdesk"
TOP_LEVEL = {
    "mcpdesk", "themes", "sample_servers", "tests",
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml",
}  # fmt: skip
SMALL = 40
"""Lines up to which a module may go without a test file of its own."""
LONGEST = 400
EMPTY_NAMES = {"utils", "util", "common", "manager", "misc", "helpers", "base_utils"}
TESTED_ELSEWHERE = {
    "__init__.py": "tests/server/test_authoring.py",
    "__main__.py": "tests/e2e/test_terminal.py",
    "bridge/__init__.py": "tests/bridge/test_calls.py",
    "jobs/programs.py": "tests/tools/test_background.py",
    "jobs/usage.py": "tests/tools/test_background.py",
    "link/link.py": "tests/link/test_local.py",
    "tools/docs.py": "tests/tools/web/test_docs.py",
    "setting.py": "tests/test_settings.py",
    "server/call.py": "tests/server/test_conversation.py",
    "server/server.py": "tests/server/test_offers.py",
    "server/resource.py": "tests/server/test_reading.py",
    "transports/http/session_outlet.py": "tests/transports/http/test_resumption.py",
}
"""Modules whose test file has another name, and why it is enough can be read there."""


def tracked() -> list[str]:
    """Every file the repository tracks."""
    answer = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()


def modules() -> list[Path]:
    """Every module of the package, relative to it."""
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def places_of(module: Path) -> list[Path]:
    """Where the tests of a module may be; a widget's and a screen's may lie in tests/tui itself."""
    name = f"test_{module.stem}.py"
    places = [ROOT / "tests" / module.parent / name]
    if module.parts[0] == "tui":
        places.append(ROOT / "tests" / "tui" / name)
    if module.as_posix() in TESTED_ELSEWHERE:
        places.append(ROOT / TESTED_ELSEWHERE[module.as_posix()])
    return places


def is_named_by_a_test(module: Path) -> bool:
    """Whether a test of the same package names the module: small parts may be tested with their whole."""
    name = f"mcpdesk.{'.'.join(module.with_suffix('').parts)}"
    tests = (ROOT / "tests" / module.parts[0]).rglob("test_*.py")
    return any(re.search(rf"{re.escape(name)}\b", path.read_text()) for path in tests)


def test_root_holds_nothing_unexpected() -> None:
    files = tracked()
    if not files:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in files}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_every_module_has_its_test_file() -> None:
    missing = [
        str(module)
        for module in modules()
        if len((PACKAGE / module).read_text().splitlines()) > SMALL
        and not any(place.exists() for place in places_of(module))
        and not is_named_by_a_test(module)
    ]
    assert missing == []


def test_every_test_file_has_its_module() -> None:
    own = {"e2e", "interop", "bench", "support", "conformance", "golden", "samples", "seeds", "load", "web"}
    orphans = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        relative = path.relative_to(ROOT / "tests")
        if len(relative.parts) == 1 or relative.parts[0] in own:
            continue
        package = PACKAGE / relative.parts[0]
        stem = path.stem.removeprefix("test_")
        if not any(candidate.exists() for candidate in (*package.rglob(f"{stem}.py"), package / stem)):
            orphans.append(str(relative))
    assert orphans == []


def test_no_module_is_too_long_or_named_after_nothing() -> None:
    long = [
        f"{module}: {lines}"
        for module in modules()
        if (lines := len((PACKAGE / module).read_text().splitlines())) > LONGEST
    ]
    assert long == []
    assert [str(module) for module in modules() if module.stem in EMPTY_NAMES] == []


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(module)
        for module in modules()
        if (text := (PACKAGE / module).read_text()) and not text.startswith('"""')
    ]
    assert silent == []


def test_no_file_is_large_or_generated() -> None:
    large = [name for name in tracked() if (ROOT / name).exists() and (ROOT / name).stat().st_size > 1 << 20]
    assert large == []
    assert [name for name in tracked() if "__pycache__" in name or name.endswith((".pyc", ".egg-info"))] == []
