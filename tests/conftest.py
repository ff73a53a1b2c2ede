"""Fixtures of every test: separate state and configuration folders, no settings from the environment."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from mcpdesk.client.configs.own_program import started_command
from mcpdesk.settings import BY_VARIABLE
from tests.support import tiers
from tests.support.patience import be_patient

# Run by nohup, or in the background of a script, these are ignored, and programs would inherit that.
for number in {signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)}:  # Windows has no SIGHUP
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# Programs that tests start keep their compiled modules, and start in a third of the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The time of an example depends only on the machine's other work. All runs use the same examples:
# others are looked for with --hypothesis-profile=search.
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=50, **UNTIMED)
settings.register_profile("search", max_examples=1000, **UNTIMED)
settings.load_profile("same")

QUICK = "not slow and not process and not browser"
# Files with only tests that the quick part leaves out.
UNQUICK_FILE = re.compile(rf"(?m)^pytestmark = .*\bpytest\.mark\.(?:{'|'.join(tiers.UNQUICK)})\b(?!\()")
_numbers = itertools.count()
_homes: Path | None = None
# Programs that fixtures of a wider scope than one test have started, by the name and place of the fixture.
_programs: dict[tuple[str, str], str] = {}

sys.addaudithook(tiers.notice)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the quick part when neither tests nor marks are named; a named folder or file runs whole."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr:
        config.option.markexpr = QUICK


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker of xdist begin with other folders of the tests.

    In a new checkout, a worker then finds half of the modules compiled, because another has imported them.
    """
    report = yield
    if collector.path == Path(__file__).parent:
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        first = len(report.result) * worker // workers
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no items of functions that the quick part leaves out: each costs a millisecond."""
    is_left_out = collector.config.option.markexpr == QUICK and tiers.is_marked_unquick(obj)
    return [] if is_left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests back in order: all workers must have the same. Then mark cases of large tables."""
    items.sort(key=lambda item: item.path)
    tiers.mark_cases_slow(items)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that have no quick test, which need not be imported then."""
    if config.option.markexpr != QUICK or not collection_path.name.startswith("test_"):
        return None
    return True if UNQUICK_FILE.search(collection_path.read_text()) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start to record the programs that the test and its fixtures start."""
    tiers.started.clear()
    be_patient(is_quick=tiers.is_quick(item))
    _move_home()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Remember the fixtures that start a program for several tests."""
    before = len(tiers.started)
    made = yield
    if len(tiers.started) > before and fixturedef.scope != "function":
        _programs[fixturedef.argname, fixturedef.baseid] = tiers.started[before]
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that starts a program or uses much CPU time and is not marked so."""
    modules, began = set(sys.modules), time.process_time()
    outcome = yield
    used_s = time.process_time() - began
    if not tiers.is_quick(item):
        return outcome
    if started := [*tiers.started, *_shared_programs(item)]:
        pytest.fail(f"this test starts a program ({started[0]}): mark it `process`", pytrace=False)
    if (
        used_s > tiers.QUICK_CPU_S * tiers.SLACK
        and not tiers.imported_since(modules)
        and sys.gettrace() is None
        and not tiers.is_crowded()
        and not tiers.has_varying_cost(item)
        and used_s > (limit_s := tiers.cpu_limit_s())
    ):
        pytest.fail(
            f"this test used {used_s:.2f} s of CPU, above {limit_s:.2f} s: make it faster or mark it `slow`",
            pytrace=False,
        )
    return outcome


def _shared_programs(item: pytest.Item) -> list[str]:
    names = getattr(item, "fixturenames", ())
    return [
        program
        for (name, place), program in _programs.items()
        if name in names and item.nodeid.startswith(place)
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two processors: a third of the tests' time is spent on waiting for something."""
    return max(2, (os.cpu_count() or 2) * 3 // 2)


def pytest_collection() -> None:
    """Nothing that is imported is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Remove settings from the environment, and leave what is there for good out of garbage collections.

    Those took a third of a screen's test.
    """
    for variable in (*BY_VARIABLE, "COLUMNS", "LINES", "XDG_RUNTIME_DIR"):  # xdist sets the size
        os.environ.pop(variable, None)
    # A checkout in a temporary folder would be refused in configuration files otherwise.
    os.environ["MCPDESK_PROGRAM"] = shlex.join(started_command("", sys.executable))
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the markers of the tests that are left out."""
    if config.option.markexpr != QUICK:
        return None
    return "left out: slow, process and browser, which `pytest -m 'slow or process or browser'` runs"


@pytest.fixture(scope="session", autouse=True)
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the folders of every test."""
    global _homes
    _homes = tmp_path_factory.mktemp("homes")
    _move_home()
    return _homes


def _move_home() -> None:
    """Keep the next test out of the person's files. The program makes its folders when it writes to them."""
    if _homes is not None:
        home = _homes / str(next(_numbers))
        os.environ["MCPDESK_STATE_DIR"] = str(home / "state")
        os.environ["MCPDESK_CONFIG_DIR"] = str(home / "config")


@pytest.fixture
def own_folders() -> Path:
    """The folder of the test's state and configuration folders."""
    home = Path(os.environ["MCPDESK_STATE_DIR"]).parent
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture
def repository() -> Path:
    """The root of the checkout."""
    return Path(os.path.abspath(__file__)).parent.parent
