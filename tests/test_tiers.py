"""Tests wait in one way, and a test without a mark is quick: `tests/conftest.py` fails others."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.driven import PatientPilot
from tests.support.frame import running_frame
from tests.support.patience import in_time, until, wait_until, within

TESTS = Path(__file__).parent
# Programs beside the tests, which measure, look for faults or run for long, and the module that waits.
SUPPORT = ("support/patience.py", "support/driven.py", "support/tiers.py", "support/windows.py")
APART = ("bench", "load", "mutate", "conformance", "tui/fuzz.py", "test_tiers.py", "server/test_awaited_line")
OWN_WAY = re.compile(
    r"(?m)^.*asyncio\.timeout\((?![01]\)).*|^.*asyncio\.wait_for\((?!.*None\)).*"
    r"|^(?:async )?def (?:wait_)?until\(.*|^.*\.run_test\(.*|^.*\.openpty\(.*"
)
INI = "[pytest]\nasyncio_mode = auto\nmarkers =\n  slow\n  process\n  browser\n"
CONFTEST = """
from tests.conftest import *
from tests.support import tiers

tiers.CROWDED = 1_000_000.0  # a crowded machine does not judge CPU times
"""
TIER = """
import os
import subprocess
import sys
import time

import pytest

from tests.support.tiers import cpu_limit_s, open_terminal


def busy():
    began, enough_s = time.thread_time(), 2 * cpu_limit_s()
    while time.thread_time() - began < enough_s:
        pass


def test_much_cpu():
    busy()


@pytest.mark.slow
def test_much_cpu_marked():
    busy()


def test_program():
    subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.process
def test_program_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_terminal():
    for each in open_terminal():
        os.close(each)


@pytest.fixture(scope="module")
def program():
    return subprocess.run([sys.executable, "-c", ""], check=True)


def test_first_user_of_a_program(program):
    pass


def test_second_user_of_a_program(program):
    pass


def test_quick():
    pass
"""


@pytest.mark.process
def test_an_unmarked_test_that_is_not_quick_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_tier.py").write_text(TIER)
    (tmp_path / "pytest.ini").write_text(INI)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tier.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = {line.split("::")[1].split(" ")[0] for line in ran.stdout.splitlines() if line[:6] == "FAILED"}
    assert failed == {
        "test_much_cpu",
        "test_program",
        "test_terminal",
        "test_first_user_of_a_program",
        "test_second_user_of_a_program",
    }, ran.stdout
    assert "mark it `slow`" in ran.stdout and "mark it `process`" in ran.stdout


TABLE = """
import pytest


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [*range(20), pytest.param(20, marks=pytest.mark.slow)])
def test_table(number):
    pass
"""


@pytest.mark.process
def test_of_a_large_table_as_many_cases_as_it_says_are_quick_and_the_others_slow(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_table.py").write_text(TABLE)
    (tmp_path / "pytest.ini").write_text(INI + "  sampled\n")

    def cases(*options: str) -> list[str]:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        return re.findall(r"test_table\[(\d+)\]", ran.stdout)

    quick, slow = cases("-m", "not slow"), cases("-m", "slow")
    assert len(quick) == 3 and len(slow) == 18
    assert {*quick, *slow} == set(map(str, range(21))) == set(cases())


def test_every_wait_is_one_of_the_support() -> None:
    """Programs in strings may wait as they like."""
    found = [
        f"{path.relative_to(TESTS)}: {line}"
        for path in TESTS.rglob("*.py")
        if not str(path.relative_to(TESTS)).startswith(APART + SUPPORT)
        for line in OWN_WAY.findall(path.read_text())
    ]
    assert found == [], "use tests.support.patience, driven and tiers"


async def test_a_wait_that_fails_shows_the_condition_and_its_values() -> None:
    log = ["first line", "second line"]
    with pytest.raises(AssertionError) as caught:
        await until(lambda: "third" in log, within_s=0.01)
    assert '"third" in log' in str(caught.value) and "second line" in str(caught.value)
    with pytest.raises(AssertionError, match="second line"):
        wait_until(lambda: "third" in log, within_s=0.01)
    with pytest.raises(AssertionError, match="second line"):
        await until(lambda: "third" in log, changed=asyncio.Event(), within_s=0.01)


async def test_a_block_that_lasts_shows_the_line_that_waits_and_its_variables() -> None:
    answer = "status 503"
    with pytest.raises(AssertionError) as caught:
        async with within(within_s=0.01):
            await asyncio.Event().wait()
    assert "await asyncio.Event().wait()" in str(caught.value) and answer in str(caught.value)
    with pytest.raises(AssertionError, match="status 503"):
        await in_time(asyncio.Event().wait(), answer, within_s=0.01)
    with pytest.raises(TimeoutError, match="its own"):
        async with within():
            raise TimeoutError("its own")


async def test_a_wait_for_a_screen_shows_the_screen() -> None:
    async with running_frame() as (app, pilot):
        with pytest.raises(AssertionError) as caught:
            await until(lambda: app.theme == "none", pilot, within_s=0.01)
        assert "quit" in str(caught.value).lower(), caught.value
        assert isinstance(pilot, PatientPilot)
        pilot.key_s, app.keys.is_busy = 0.01, True  # as with a dialog that never opens
        with pytest.raises(AssertionError, match="has_taken_effect") as caught:
            await pilot.press("j")
    assert "pressed 'j'" in str(caught.value) and "quit" in str(caught.value).lower(), caught.value


async def test_a_value_of_a_condition_is_returned() -> None:
    found: list[str] = []
    asyncio.get_running_loop().call_soon(found.append, "came")
    assert await until(lambda: found) == ["came"]

    async def asked() -> str | None:
        return found[0]

    assert await until(asked) == "came"
