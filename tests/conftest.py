"""What every test gets: folders of its own for state and configuration, and no settings from the outside."""

from __future__ import annotations

import gc
import itertools
import os
import shlex
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mcpdesk.client.configs.own_program import started_command
from mcpdesk.settings import BY_VARIABLE
from tests.support.settling import settle_with_patience

# Run by nohup, or in the background of a script, these are ignored, and programs would inherit that.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# Programs that tests start keep their compiled modules, and start in a third of the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How long an example takes says something of the machine's other work only. Everybody gets the same examples:
# others are looked for with --hypothesis-profile=search.
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=50, **UNTIMED)
settings.register_profile("search", max_examples=1000, **UNTIMED)
settings.load_profile("same")

QUICK = "not slow and not process and not browser"
UNQUICK = ("slow", "process", "browser")
# Audit events of a program that is started.
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"}
GUARD = ["-I", "-S", "-c"]  # options of the program that guards all jobs of a process
FINDERS = {"ldconfig", "gcc", "cc", "ld", "objdump"}  # what ctypes asks where a library is
_homes = itertools.count()
_started: list[str] = []


def _notice_starts(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in STARTS:
        return
    program = os.path.basename(str(arguments[0])) if arguments else event
    options = list(arguments[1] or ()) if len(arguments) > 1 else []
    if program not in FINDERS and options[1:4] != GUARD:
        _started.append(program)


sys.addaudithook(_notice_starts)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the quick part when neither tests nor marks are named; a named folder or file runs whole."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr:
        config.option.markexpr = QUICK


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin to notice what the test and its fixtures start."""
    _started.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that starts a program and is not marked so."""
    outcome = yield
    if _started and not any(item.get_closest_marker(mark) for mark in UNQUICK):
        pytest.fail(f"this test starts a program ({_started[0]}): mark it `process`", pytrace=False)
    return outcome


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two processors: a third of the tests' time is spent on waiting for something."""
    return max(2, (os.cpu_count() or 2) * 3 // 2)


def pytest_collection() -> None:
    """Nothing that is imported is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what is there for good out of collections, which took a third of a screen's test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what is left out."""
    if config.option.markexpr != QUICK:
        return None
    return "left out: slow, process and browser, which `pytest -m 'slow or process or browser'` runs"


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the folders of every test."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def own_folders(homes: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep tests out of the person's files and settings out of the tests. Returns the folder of both."""
    for variable in (*BY_VARIABLE, "COLUMNS", "LINES"):  # the last two are set by what runs tests in parallel
        monkeypatch.delenv(variable, raising=False)
    home = homes / str(next(_homes))
    home.mkdir()
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("MCPDESK_CONFIG_DIR", str(home / "config"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    # A checkout in a temporary folder would be refused in configuration files otherwise.
    monkeypatch.setenv("MCPDESK_PROGRAM", shlex.join(started_command("", sys.executable)))
    return home


@pytest.fixture(autouse=True)
def patient_pilot() -> None:
    """Screens are given the time they need."""
    settle_with_patience()


@pytest.fixture
def repository() -> Path:
    """The root of the checkout."""
    return Path(os.path.abspath(__file__)).parent.parent
