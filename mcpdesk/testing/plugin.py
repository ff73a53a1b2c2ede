"""The plugin for pytest: the fixtures `desk_client` and `desk_snapshot`, and case files as tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mcpdesk.testing.case_files import Case
    from mcpdesk.testing.case_run import CaseResult
    from mcpdesk.testing.sync_client import ServerUnderTest

SNAPSHOTS = "snapshots"
"""The folder of the snapshots, beside the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--desk-update`."""
    parser.getgroup("mcpdesk").addoption(
        "--desk-update", action="store_true", help="write what desk_snapshot compares with"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the case files of a server folder as tests."""
    folder = file_path.parent.parent
    if file_path.suffix not in (".yaml", ".yml", ".json") or file_path.parent.name != "cases":
        return None
    if not any((folder / part).exists() for part in ("mcp.json", "tools", "resources", "prompts")):
        return None
    return CaseFile.from_parent(parent, path=file_path)


class CaseFile(pytest.File):
    """A case file; its cases run against the folder that `cases` lies in, which is hosted once."""

    client: ServerUnderTest | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each case. Raises: CollectError for a file that cannot be read."""
        from mcpdesk.errors import DeskUserError
        from mcpdesk.testing.case_files import read_cases

        try:
            cases = read_cases(self.path)
        except DeskUserError as error:
            raise self.CollectError(f"{error} {error.hint}".strip()) from None
        for case in cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)

    def setup(self) -> None:
        """Host the folder."""
        from mcpdesk.testing.sync_client import ServerUnderTest

        self.client = ServerUnderTest(self.path.parent.parent)

    def teardown(self) -> None:
        """End it."""
        if self.client is not None:
            self.client.close()
            self.client = None


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, case: Case, **given: Any) -> None:
        super().__init__(**given)
        self.case = case

    def runtest(self) -> None:
        """Run the case. Raises: CaseFailed."""
        assert isinstance(self.parent, CaseFile)
        assert self.parent.client is not None
        result = self.parent.client.run(self.case)
        if result.failures:
            raise CaseFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Show what is not as expected, and what the server logged."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the case."""
        line = self.case.place.rpartition(":")[2]
        return self.path, int(line) - 1, self.name


class CaseFailed(AssertionError):
    """A case whose call did not come to what it expects."""

    def __init__(self, result: CaseResult) -> None:
        logged = ["it logged:", *(f"  {line}" for line in result.logged)] if result.logged else []
        super().__init__("\n".join([f"{result.case.place}: {result.case.name}", *result.failures, *logged]))


@pytest.fixture
def desk_client() -> Iterator[Callable[..., ServerUnderTest]]:
    """Connects to a server: `desk_client(target, mode="")`, until the test ends."""
    from mcpdesk.testing.sync_client import ServerUnderTest

    clients = list[ServerUnderTest]()

    def connect(target: str | Path, *, mode: str = "") -> ServerUnderTest:
        clients.append(ServerUnderTest(target, mode=mode))
        return clients[-1]

    yield connect
    for client in reversed(clients):
        client.close()


@pytest.fixture
def desk_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compares a result with the one kept: `desk_snapshot(client.call(...), name="")`.

    `--desk-update` keeps what comes, in `snapshots/` beside the test.
    """
    import msgspec

    def compare(value: Any, name: str = "") -> None:
        words = "-".join(part for part in (request.node.name, name) if part)
        stem = re.sub(r"[^\w.-]+", "-", words)
        place = request.path.parent / SNAPSHOTS / request.path.stem / f"{stem}.json"
        plain = msgspec.to_builtins(value)
        text = json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if request.config.getoption("--desk-update"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            return
        if not place.exists():
            pytest.fail(f"{place} does not exist; --desk-update writes it", pytrace=False)
        assert json.loads(text) == json.loads(place.read_text("utf-8"))

    return compare
