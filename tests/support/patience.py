"""The one way of tests to wait. A wait that fails reports the condition and the values that it looks at."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from types import CodeType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

# Seconds after which a quick test gives up a condition. Tests of other tiers wait for programs and run beside
# many others: they have WITHIN_S, which also limits whole blocks.
UNTIL_S = 10.0
WITHIN_S = 40.0
LOOK_S = 0.005
# A busy machine looks less often, and waits longer for that.
LEAST_LOOKS = 20
MAX_CHARACTERS = 3_000


_until_s = UNTIL_S


def be_patient(*, is_quick: bool) -> None:
    """Set the time limit of conditions; `tests/conftest.py` calls it before each test."""
    global _until_s
    _until_s = UNTIL_S if is_quick else WITHIN_S


async def until(
    condition: Callable[[], Any],
    *shown: object,
    changed: asyncio.Event | None = None,
    within_s: float | None = None,
) -> Any:
    """Wait until a condition is true, and return its value.

    A pilot among `shown` lets its screen settle between two looks. With `changed`, the condition is looked at
    when that event is set. A failure prints `shown`, or the variables of the condition.
    """
    within_s = _until_s if within_s is None else within_s
    end = time.monotonic() + within_s
    pilot = next((each for each in shown if hasattr(each, "pause")), None)
    looks = 0
    while True:
        result = condition()
        if inspect.isawaitable(result):
            async with within(*shown, within_s=within_s):
                result = await result
        if result:
            return result
        looks += 1
        left_s = end - time.monotonic()
        if left_s <= 0 and (changed is not None or looks >= LEAST_LOOKS):
            raise AssertionError(_given_up(condition, shown, within_s))
        if changed is not None:
            changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), max(left_s, 0))
        elif pilot is not None:
            await pilot.pause()
        else:
            await asyncio.sleep(LOOK_S)


def wait_until(condition: Callable[[], Any], *shown: object, within_s: float | None = None) -> Any:
    """Block until a condition is true that a thread or another program changes, and return its value."""
    within_s = _until_s if within_s is None else within_s
    end = time.monotonic() + within_s
    looks = 0
    while not (result := condition()):
        looks += 1
        if time.monotonic() >= end and looks >= LEAST_LOOKS:
            raise AssertionError(_given_up(condition, shown, within_s))
        time.sleep(LOOK_S)
    return result


@asynccontextmanager
async def within(*shown: object, within_s: float = WITHIN_S) -> AsyncIterator[None]:
    """Limit the time of a block. A failure prints the line that waits, `shown` and that line's variables."""
    try:
        async with asyncio.timeout(within_s) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        cause = error.__cause__ or error
        raise AssertionError(_stuck(cause.__traceback__, shown, within_s)) from error


async def in_time(awaitable: Awaitable[T], *shown: object, within_s: float = WITHIN_S) -> T:
    """Result of an awaitable that ends in time."""
    async with within(*shown, within_s=within_s):
        return await awaitable


def result_of(future: Future[T], *shown: object, within_s: float = WITHIN_S) -> T:
    """Result of work of another thread that ends in time."""
    try:
        return future.result(within_s)
    except TimeoutError as error:
        if future.done():
            raise
        raise AssertionError(
            "\n".join((f"no result after {within_s:g} s: {future}", *_values(shown)))
        ) from error


def _given_up(condition: Callable[[], object], shown: tuple[object, ...], within_s: float) -> str:
    """Failure of a condition."""
    code: CodeType | None = getattr(condition, "__code__", None)
    where = f"{os.path.relpath(code.co_filename)}:{code.co_firstlineno}: " if code else ""
    lines = [f"not true after {within_s:g} s: {where}{_source(condition)}"]
    lines += _values(shown)
    lines += _variables(_closure(condition))
    return "\n".join(lines)


def _stuck(trace: TracebackType | None, shown: tuple[object, ...], within_s: float) -> str:
    """Failure of a block, by the innermost line of a test in the trace."""
    code: CodeType | None = None
    line, variables = 0, dict[str, object]()
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if f"{os.sep}tests{os.sep}" in name and name != __file__:
            code, line, variables = trace.tb_frame.f_code, trace.tb_lineno, trace.tb_frame.f_locals
        trace = trace.tb_next
    where = "" if code is None else f"{os.path.relpath(code.co_filename)}:{line}: "
    source = "" if code is None else linecache.getline(code.co_filename, line).strip()
    return "\n".join(
        (f"no end after {within_s:g} s: {where}{source}", *_values(shown), *_variables(variables))
    )


def _source(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)


def _closure(condition: Callable[[], object]) -> dict[str, object]:
    """Variables of a function, or the object of a method."""
    if inspect.ismethod(condition):
        return {"self": condition.__self__}
    return dict(inspect.getclosurevars(condition).nonlocals) if inspect.isfunction(condition) else {}


def _values(shown: tuple[object, ...]) -> Iterator[str]:
    for each in shown:
        yield from _described(type(each).__name__, each)


def _variables(variables: dict[str, object]) -> Iterator[str]:
    for name, value in variables.items():
        yield from _described(name, value)


def _described(name: str, value: object) -> Iterator[str]:
    """Lines about a value: a screen as text, an object of the tests by its fields, others by `repr`."""
    app = getattr(value, "app", value)
    if hasattr(app, "export_screenshot"):
        yield f"-- screen of {name}:\n{screen_text(app)}"
    elif type(value).__module__.startswith("tests.") and hasattr(value, "__dict__"):
        for field, inner in vars(value).items():
            yield f"-- {name}.{field} = {_bounded(inner)}"
    else:
        yield f"-- {name} = {_bounded(value)}"


def _bounded(value: object) -> str:
    """The end of a value's text: of a log, that is the newest part."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_CHARACTERS else f"... {text[-MAX_CHARACTERS:]}"


def screen_text(app: Any) -> str:
    """The screen of a Textual app as lines of text."""
    if not app.is_running:
        return "(the app has ended)"
    return "\n".join(line.rstrip() for line in screen_lines(app))


def screen_lines(app: Any) -> list[str]:
    """The lines of the screen of a Textual app, in full width.

    Textual's public way is an SVG, which needs much more time.
    """
    return [strip.text for strip in app.screen._compositor.render_strips()]
