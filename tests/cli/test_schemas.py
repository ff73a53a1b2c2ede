"""`mcpdesk schemas`: JSON on stdout, remarks on stderr, and every way it may fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.folders import write

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = '''
    from mcpdesk import tool

    print("a stray print")

    @tool(name="count.words")
    async def count(text: str) -> int:
        """Count words."""
        return len(text.split())

    @tool
    async def greet(name: str) -> str:
        """Greet somebody."""
        return name
    '''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a mode, a name no API takes, and a print."""
    manifest = '{"name": "words", "modes": {"calm": {"tools": ["greet"]}}}'
    return write(tmp_path / "words", {"mcp.json": manifest, "tools/words.py": TOOL})


@pytest.mark.process
@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_tools_of_a_folder_are_printed_for_each_api(mcpdesk: Run, place: Path, api: str) -> None:
    finished = mcpdesk("schemas", str(place), "--for", api)
    assert finished.returncode == 0, finished.stderr
    first = json.loads(finished.stdout)[0]
    told = first["function"] if api == "openai" else first
    assert (told["name"], told["description"]) == ("count_words", "Count words.")
    schema = told["parameters"] if api == "openai" else told["input_schema"]
    assert schema["properties"]["text"]["type"] == "string" and schema["required"] == ["text"]
    assert "'count.words' is called 'count_words'" in finished.stderr
    assert "a stray print" in finished.stderr


@pytest.mark.process
def test_mode_prints_its_tools_alone(mcpdesk: Run, place: Path) -> None:
    finished = mcpdesk("schemas", str(place), "--for", "anthropic", "--mode", "calm")
    assert [tool["name"] for tool in json.loads(finished.stdout)] == ["greet"]


@pytest.mark.process
def test_model_of_the_settings_chooses_the_api(mcpdesk: Run, place: Path) -> None:
    finished = mcpdesk("schemas", str(place), MCPDESK_MODEL="claude-sonnet")
    assert "input_schema" in json.loads(finished.stdout)[0]
    finished = mcpdesk("schemas", str(place), MCPDESK_MODEL="gpt-5")
    assert "function" in json.loads(finished.stdout)[0]
    for name in ("sonnet", "Opus", "haiku-4-5"):
        finished = mcpdesk("schemas", str(place), MODEL=name)
        assert "input_schema" in json.loads(finished.stdout)[0], name


@pytest.mark.slow
def test_server_at_a_url_prints_the_same(mcpdesk: Run, serve: Callable[..., Service], place: Path) -> None:
    url = serve(str(place), "--port", "0").says("serving words at").rpartition(" ")[2]
    for more in ([], ["--mode", "calm"]):
        there = mcpdesk("schemas", url, "--for", "openai", *more)
        assert there.returncode == 0, there.stderr
        assert there.stdout == mcpdesk("schemas", str(place), "--for", "openai", *more).stdout
    wild = mcpdesk("schemas", url, "--for", "openai", "--mode", "wild")
    assert wild.returncode == 4 and "calm" in wild.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["{}"], 2, "No model API"),
        (["{}", "--for", "gemini"], 2, "'gemini' is not one of"),
        (["{}", "--for", "openai", "--mode", "wild"], 2, "calm"),
        (["{}/nowhere", "--for", "openai"], 2, "No folder or file"),
        (["{}", "--for", "openai", "--key-env", "HOME"], 2, "Tokens, keys and headers cannot be used"),
        (["ftp://x/", "--for", "openai"], 2, "only http:// and https://"),
        (["http://127.0.0.1:1/mcp", "--for", "openai"], 3, "Connection refused"),
        (
            ["http://127.0.0.1:1/mcp", "--for", "openai", "--token-env", "UNSET_HERE"],
            2,
            "UNSET_HERE is not set",
        ),
    ],
)
def test_mistake_is_told_with_its_exit_code(
    mcpdesk: Run, place: Path, arguments: list[str], code: int, told: str
) -> None:
    finished = mcpdesk("schemas", *(each.format(place) for each in arguments))
    assert finished.returncode == code
    assert told in finished.stderr
    assert finished.stdout == "" and "Traceback" not in finished.stderr
