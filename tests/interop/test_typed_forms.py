"""A class as a form: the official client shows and fills it, in both eras, and a tool gets an instance."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.support import typed_forms
from tests.support.folders import write
from tests.support.official import text_of
from tests.support.patience import WITHIN_S

both_ways = pytest.mark.parametrize("place", ["json", "stdio"], indirect=True)
both_eras = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
DAY = {"day": "2026-11-24", "row": 3.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(typed_forms.__file__).read_text("utf-8")
    return write(tmp_path_factory.mktemp("place") / "workshop", {"tools/forms.py": source})


class Filler:
    """Fills every form with the same values, and stores the requested schemas."""

    def __init__(self, filled: dict[str, Any] | None) -> None:
        self.filled = filled
        self.schema: dict[str, Any] = {}

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.schema = params.requested_schema
        return types.ElicitResult(action="accept" if self.filled else "cancel", content=self.filled)


async def call(place: Any, mode: str, tool: str, filler: Filler) -> str:
    async with Client(
        place, mode=mode, read_timeout_seconds=WITHIN_S, elicitation_callback=filler
    ) as client:  # fmt: skip
        result = await client.call_tool(tool, {})
    return text_of(result)


@pytest.mark.process
@both_ways
@both_eras
@pytest.mark.parametrize(
    ("tool", "filled", "said"),
    [
        ("book", DAY, "Tuesday 4 SOUP second None"),
        ("book", {**DAY, "meal": "cake", "comfort": "first", "note": "!"}, "Tuesday 4 CAKE first !"),
        ("book", None, "cancel"),
        ("greet", {"name": "Ada"}, "Guest ADA 30"),
        ("greet", None, "cancelled"),
        ("paint", {"colour": "red"}, "red"),
        ("free", {"letter": "a"}, "{'letter': 'a'}"),
    ],
)
async def test_what_a_form_is_filled_with_is_an_instance(
    place: Any, mode: str, tool: str, filled: dict[str, Any] | None, said: str
) -> None:
    assert await call(place, mode, tool, Filler(filled)) == said


@pytest.mark.process
@pytest.mark.parametrize("place", ["stdio"], indirect=True)
@both_eras
async def test_a_form_has_the_words_that_clients_know(place: Any, mode: str) -> None:
    filler = Filler(DAY)
    await call(place, mode, "book", filler)
    fields = filler.schema["properties"]
    assert filler.schema["required"] == ["day", "row"]
    assert (fields["day"], fields["row"]) == (
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 1},
    )
    assert (fields["meal"]["enum"], fields["meal"]["default"]) == (["soup", "cake"], "soup")
    assert fields["note"] == {"type": "string"}


@pytest.mark.process
@pytest.mark.parametrize("place", ["stdio"], indirect=True)
@pytest.mark.parametrize(
    ("mode", "tool", "said"),
    [
        ("legacy", "book", "does not fit the schema that was sent: row must be"),
        ("legacy", "nested", "Nested cannot be a form: booking: a form holds"),
        ("2026-07-28", "nested", "Nested cannot be a form: booking: a form holds"),
    ],
)
async def test_what_cannot_be_is_said(place: Any, mode: str, tool: str, said: str) -> None:
    assert said in await call(place, mode, tool, Filler({**DAY, "row": 0}))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="pyright needs Node")
def test_strict_pyright_knows_what_was_accepted(tmp_path: Path) -> None:
    """mypy looks at the same file with all the others."""
    write(tmp_path, {"forms.py": Path(typed_forms.__file__).read_text("utf-8")})
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]

    def look() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=80)

    clean = look()
    assert clean.returncode == 0, clean.stdout + clean.stderr
    text = (
        (tmp_path / "forms.py")
        .read_text()
        .replace("answer.content\n    return f", "answer.content.seat\n    return f")
    )
    (tmp_path / "forms.py").write_text(text)
    faulty = look()
    assert faulty.returncode == 1
    assert 'Cannot access attribute "seat" for class "Booking"' in faulty.stdout
