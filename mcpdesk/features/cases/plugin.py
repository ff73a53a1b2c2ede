"""Plugin for pytest: fixtures that connect to a server, `desk_snapshot`, and case files as tests.

Case files are collected only if the ini option `mcpdesk_cases` names them, because this plugin is loaded in
every project of an environment with mcpdesk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pytest

if TYPE_CHECKING:
    from mcpdesk.testing.case_files import Case
    from mcpdesk.testing.case_run import CaseResult
    from mcpdesk.testing.sync_client import ServerUnderTest
    from mcpdesk.testing.target_opening import ConnectOptions

SUFFIXES = (".yaml", ".yml", ".json")
SERVER_PARTS = ("mcp.json", "tools", "resources", "prompts")
"""Files and folders that mark a server folder. A server folder has at least one of them."""
SNAPSHOTS = "snapshots"
"""Folder of the snapshots, next to the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--desk-update` and the ini options."""
    parser.getgroup("mcpdesk").addoption(
        "--desk-update", action="store_true", help="store results instead of comparing them in desk_snapshot"
    )
    parser.addini(
        "mcpdesk_cases", "case files of mcpdesk, or folders of them, to collect as tests", "paths", []
    )
    parser.addini(
        "mcpdesk_target",
        "server for these cases and for desk_client(): a folder, URL, Python file or `-- COMMAND`",
        "string",
        "",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the case files that the ini option names."""
    case_paths = [Path(os.path.abspath(each)) for each in parent.config.getini("mcpdesk_cases")]
    if not case_paths or file_path.suffix not in SUFFIXES:
        return None
    path = Path(os.path.abspath(file_path))
    if not any(path == each or path.is_relative_to(each) for each in case_paths):
        return None
    return CaseFile.from_parent(parent, path=file_path)


def target_of(config: pytest.Config) -> str:
    """Return the server in the ini option, with a path relative to the ini file, or "" if the option is not
    set.
    """
    text = str(config.getini("mcpdesk_target")).strip()
    if not text or "://" in text or text.startswith("-- "):
        return text
    return str(_root(config) / Path(text).expanduser())


def _root(config: pytest.Config) -> Path:
    return config.inipath.parent if config.inipath is not None else config.rootpath


class CaseFile(pytest.File):
    """Case file. The server is started once for all its cases.

    The server is `mcpdesk_target` or, if this option is not set, the server folder that contains the file.
    """

    client: ServerUnderTest | None = None
    """Client of the started server. None before `setup` and after `teardown`."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each case. Raises: CollectError if the file is invalid."""
        from mcpdesk.errors import DeskUserError
        from mcpdesk.testing.case_files import read_cases

        try:
            cases = read_cases(self.path)
        except DeskUserError as error:
            raise self.CollectError(f"{error} {error.hint}".strip()) from None
        for case in cases:
            yield CaseItem.from_parent(self, name=case.name, case=case)

    def setup(self) -> None:
        """Start the server, or connect to it. Raises: DeskUserError if no server is known."""
        from mcpdesk.errors import DeskUserError
        from mcpdesk.testing.sync_client import ServerUnderTest

        parents = [each for each in self.path.parents if each.is_relative_to(self.config.rootpath)]
        server_folders = (each for each in parents if any((each / part).exists() for part in SERVER_PARTS))
        target = target_of(self.config) or next(server_folders, None)
        if target is None:
            raise DeskUserError(f"No server is known for {self.path}.", "Set the ini option mcpdesk_target.")
        self.client = ServerUnderTest(target)

    def teardown(self) -> None:
        """Close the connection."""
        if self.client is not None:
            self.client.close()
            self.client = None


class CaseItem(pytest.Item):
    """Test that runs one case."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case = case

    def runtest(self) -> None:
        """Run the case. Raises: CaseFailed."""
        assert isinstance(self.parent, CaseFile)
        assert self.parent.client is not None
        result = self.parent.client.run(self.case)
        if result.failures:
            raise CaseFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Show the differences from the expected outcome, and the lines that the server logged."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the position of the case."""
        line = self.case.location.rpartition(":")[2]
        return self.path, int(line) - 1, self.name


class CaseFailed(AssertionError):
    """The outcome of a case is not the expected one."""

    def __init__(self, result: CaseResult) -> None:
        logged = ["it logged:", *(f"  {line}" for line in result.logged)] if result.logged else []
        super().__init__(
            "\n".join([f"{result.case.location}: {result.case.name}", *result.failures, *logged])
        )


Connect = Callable[..., "ServerUnderTest"]


@pytest.fixture
def desk_client(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect to a server until the test ends: `desk_client(target, revision="2025-11-25")`.

    The target is a TARGET as for the commands, or a server object of FastMCP or the SDK. The default is the
    ini option `mcpdesk_target`. The options are those of `mcpdesk.testing.ConnectOptions`.
    """
    with _connecting(request.config) as connect:
        yield connect


@pytest.fixture(scope="module")
def desk_client_module(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect like `desk_client`, once for all tests of a module. Equal arguments get the same client."""
    with _connecting(request.config, shares=True) as connect:
        yield connect


@pytest.fixture(scope="session")
def desk_client_session(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect like `desk_client`, once for the whole test run, or once per worker process of xdist."""
    with _connecting(request.config, shares=True) as connect:
        yield connect


@contextmanager
def _connecting(config: pytest.Config, *, shares: bool = False) -> Iterator[Connect]:
    """Yield a function that connects to servers. The connections are closed when the block ends.

    If `shares`, equal calls get the same client.
    """
    from mcpdesk.testing.sync_client import ServerUnderTest

    shared: dict[object, tuple[object, ServerUnderTest]] = {}
    """Clients by target and options.

    The target is stored too, because Python reuses the ids of deleted objects.
    """
    with ExitStack() as clients:

        def connect(target: Any = None, **options: Unpack[ConnectOptions]) -> ServerUnderTest:
            server = target_of(config) if target is None else target
            if server == "":
                pytest.fail("name a target, or set the ini option mcpdesk_target", pytrace=False)
            key = (_target_key(server), repr(sorted(options.items())))
            if shares and key in shared:
                return shared[key][1]
            client = clients.enter_context(ServerUnderTest(server, **options))
            shared[key] = (server, client)
            return client

        yield connect


def _target_key(target: Any) -> object:
    """Return a value that is equal for equal targets.

    The value of a relative path depends on the working folder.
    """
    if not isinstance(target, str | os.PathLike):
        return id(target)
    text = os.fspath(target)
    path = os.path.expanduser(text)
    if os.path.exists(path):
        return os.path.realpath(path)
    return text if "://" in text else (os.getcwd(), text)


@pytest.fixture
def desk_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare a result with a stored one: `desk_snapshot(client.call(...), name="")`.

    With `--desk-update`, the result is stored in `snapshots/` next to the test instead.
    """
    import msgspec

    def compare(value: Any, name: str = "") -> None:
        full_name = "-".join(part for part in (request.node.name, name) if part)
        stem = re.sub(r"[^\w.-]+", "-", full_name)
        path = request.path.parent / SNAPSHOTS / request.path.stem / f"{stem}.json"
        json_value = msgspec.to_builtins(value)
        text = json.dumps(json_value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if request.config.getoption("--desk-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; --desk-update writes it", pytrace=False)
        assert json.loads(text) == json.loads(path.read_text("utf-8"))

    return compare
