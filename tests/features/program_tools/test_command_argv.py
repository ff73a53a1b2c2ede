"""Values become elements of argv: never a flag, never text of a shell, never two elements out of one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcpdesk.errors import BadArgument
from mcpdesk.features.program_tools.command_argv import (
    Placeholder,
    build,
    check_template,
    names_in,
    parse_template,
)
from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import run


def argv(run: list[str], **values: Any) -> list[str]:
    return build([parse_template(each) for each in run], values, {"folder": "/srv"})


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("plain", ("plain",)),
        ("", ()),
        ("{a}", (Placeholder("a"),)),
        ("--size={w}x{h}", ("--size=", Placeholder("w"), "x", Placeholder("h"))),
        ("{{a}} {b}", ("{a} ", Placeholder("b"))),
        ("{a-b.c_1}", (Placeholder("a-b.c_1"),)),
    ],
)
def test_template_is_texts_and_placeholders(text: str, template: tuple[str | Placeholder, ...]) -> None:
    assert parse_template(text) == template


@pytest.mark.parametrize("text", ["{", "}", "{a", "a}", "{}", "{a b}", "{1}", "{{a}"])
def test_brace_that_belongs_to_none_is_a_mistake(text: str) -> None:
    with pytest.raises(ValueError, match="write it twice"):
        parse_template(text)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("run", "values", "expected"),
    [
        (["in", "{a}"], {"a": "x y; $(z)"}, ["in", "x y; $(z)"]),
        (["{a}"], {"a": ""}, [""]),
        (["{n}", "{f}", "{z}"], {"n": 3, "f": 1.5, "z": 1e22}, ["3", "1.5", "1e+22"]),
        (["{n}", "--low={z}"], {"n": 3.0, "z": -0.0}, ["3", "--low=0"]),
        (["--low", "{l}"], {"l": [-2.0, 1e15]}, ["--low", "-2", "--low", "1000000000000000"]),
        (["{o}"], {"o": {"a": [1, "ü"]}}, ['{"a":[1,"ü"]}']),
        # Unset, null and empty drop the element and the flag before it.
        (["--width", "{w}", "in"], {}, ["in"]),
        (["--width", "{w}", "in"], {"w": None}, ["in"]),
        (["--width", "{w}", "in"], {"w": []}, ["in"]),
        (["--width", "{w}", "in"], {"w": 5}, ["--width", "5", "in"]),
        (["--size={w}x{h}"], {"w": 5}, []),
        (["--size", "{w}x{h}", "in"], {"w": 5}, ["in"]),
        (["--size", "{w}x{h}"], {"w": 5, "h": 6}, ["--size", "5x6"]),
        # Arguments that are not flags stay.
        (["in", "{w}"], {}, ["in"]),
        (["-", "{w}"], {}, ["-"]),
        (["--mode=fast", "{w}"], {}, ["--mode=fast"]),
        (["--last"], {}, ["--last"]),
        (["--a", "--b", "{w}"], {}, ["--a"]),
        # Booleans switch a flag, or are words.
        (["--loud", "{b}", "in"], {"b": True}, ["--loud", "in"]),
        (["--loud", "{b}", "in"], {"b": False}, ["in"]),
        (["--loud", "{b}", "in"], {}, ["in"]),
        (["--loud={b}"], {"b": False}, ["--loud=false"]),
        (["{b}"], {"b": True}, ["true"]),
        # A list is one element each, with its flag.
        (["{l}", "out"], {"l": ["a", "b"]}, ["a", "b", "out"]),
        (["-I", "{l}"], {"l": ["a", "b"]}, ["-I", "a", "-I", "b"]),
        (["-I{l}"], {"l": ["a", "b"]}, ["-Ia", "-Ib"]),
        (["{l}:{m}"], {"l": ["a", "b"], "m": [1, 2]}, ["a:1", "a:2", "b:1", "b:2"]),
        # Places of ours are the author's own text.
        (["--dir", "{folder}", "{w}"], {}, ["--dir", "/srv"]),
        (["{folder}/{w}"], {"w": "-x"}, ["/srv/-x"]),
        # Where no value is read as an option, it may look like one.
        (["--name={w}"], {"w": "--all"}, ["--name=--all"]),
        (["--", "{w}"], {"w": "-rf"}, ["--", "-rf"]),
        (["--low", "{w}"], {"w": -4.5}, ["--low", "-4.5"]),
        (["--low", "{w}"], {"w": [-1, -2]}, ["--low", "-1", "--low", "-2"]),
    ],
)
def test_values_take_the_place_of_their_placeholders(
    run: list[str], values: dict[str, Any], expected: list[str]
) -> None:
    assert argv(run, **values) == expected


@pytest.mark.parametrize(
    ("run", "value"),
    [
        (["{w}"], "-rf"),
        (["{w}"], ["fine", "--all"]),
        (["{w}"], -5),
        (["--name", "{w}"], "--all"),
        (["--name", "{w}"], "-5"),
        (["--name", "{w}"], [1, "-5"]),
        (["{w}x"], "-"),
        (["{e}{w}"], "-x"),
    ],
)
def test_value_that_would_be_taken_for_an_option_is_refused(run: list[str], value: Any) -> None:
    with pytest.raises(BadArgument, match="begins with '-' and would be taken for an option"):
        argv(run, w=value, e="")


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_value_no_program_can_be_given_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match=r"^w: "):
        argv(["{w}"], w=text)


@pytest.mark.parametrize(
    ("text", "is_fit"),
    [("-{w}", False), ("--{w}", False), ("--col{w}", False), ("--color={w}", True), ("-j{w}", True),
     ("-Dkey={w}", True), ("{w}", True), ("x-{w}", True), ("--plain", True)],
)  # fmt: skip
def test_value_never_says_which_option_it_is(text: str, is_fit: bool) -> None:
    if is_fit:
        return check_template(parse_template(text))
    with pytest.raises(ValueError, match="must not become the name of an option"):
        check_template(parse_template(text))


TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["-", "--", "-x", "--all", "--x=1", "$(id)", "`id`", "; rm -rf /", "a b", "*", "'", '"', "\n"]
    ),
)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False))
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.text(max_size=3), TEXTS, max_size=2)
)
ELEMENTS = st.sampled_from(
    [
        "in",
        "--flag",
        "-f",
        "{a}",
        "{b}",
        "--a={a}",
        "-j{b}",
        "{a}{b}",
        "x{a}",
        "{a}x",
        "--",
        "{folder}/{a}",
        "-",
    ]
)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.lists(ELEMENTS, max_size=6), VALUES, VALUES)
def test_no_value_can_stand_where_a_flag_is_read(run: list[str], a: Any, b: Any) -> None:
    try:
        made = argv(run, a=a, b=b)
    except BadArgument:
        assume(False)
    own = {each for each in run if not names_in(parse_template(each))}
    fixed = tuple(each[: each.index("{")] for each in run if each.startswith("-") and "{" in each)
    for number, element in enumerate(made):
        if "--" in made[:number] and "--" in own:
            break
        if element.startswith("-"):
            before = made[number - 1] if number else ""
            is_number_of_a_flag = before in own and before.startswith("-") and _is_number(element)
            assert element in own or element.startswith(fixed or ("\0",)) or is_number_of_a_flag
    assert not any("\0" in element for element in made)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS.filter(lambda text: "\0" not in text), min_size=1, max_size=20))
def test_values_arrive_at_a_real_program_as_they_are(values: list[str]) -> None:
    made = argv(["--", "{values}"], values=values)
    code = "import json, sys; print(json.dumps(sys.argv[2:]))"

    async def arrived() -> list[str]:
        output = Output()
        await run(
            [sys.executable, "-S", "-E", "-c", code, *made],
            folder=Path("/"),
            environment={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"},
            output=output,
            timeout_s=20,
        )
        found: list[str] = json.loads(output.stream("stdout"))
        return found

    assert asyncio.run(arrived()) == values
