"""What a core without a screen says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mcpdesk.cli.service import greeting
from mcpdesk.hosting.journal import Journal
from mcpdesk.server.server import Server


def host(protection: str, configured: str = "", state: Path = Path("/nowhere/at/all")) -> SimpleNamespace:
    return SimpleNamespace(
        endpoints=lambda: [SimpleNamespace(name="small", server=Server("small"))],
        url=lambda name: f"http://127.0.0.1:1/mcp/{name}",
        protection=protection,
        rules=SimpleNamespace(api_key_header="X-API-Key"),
        settings=SimpleNamespace(api_key=configured, state_dir=state),
        journal=Journal(),
    )


@pytest.mark.parametrize(
    ("protection", "words"), [("key", "send the key as X-API-Key"), ("open", "ANYBODY"), ("loopback", "")]
)
def test_greeting_says_where_and_for_whom(protection: str, words: str) -> None:
    lines = greeting(host(protection))  # type: ignore[arg-type]
    assert lines[0] == "serving small at http://127.0.0.1:1/mcp/small"
    assert words in lines[-1]
    assert lines[1] == "a browser shows it at http://127.0.0.1:1/"
    assert len(lines) == (3 if words else 2)


def test_greeting_says_where_the_key_is(tmp_path: Path) -> None:
    (tmp_path / "api-key").touch()
    assert f"it is in {tmp_path}/api-key" in greeting(host("key", state=tmp_path))[2]  # type: ignore[arg-type]
    assert "the configured one" in greeting(host("key", "secret", tmp_path))[2]  # type: ignore[arg-type]
    assert "set MCPDESK_API_KEY" in greeting(host("key"))[2]  # type: ignore[arg-type]
