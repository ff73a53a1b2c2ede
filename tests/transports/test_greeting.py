"""Pumps introduce themselves, other clients do not; both are understood in every split."""

from __future__ import annotations

import pytest

from mcpdesk.transports import pump
from mcpdesk.transports.unix import LIMIT, Greeting, Hello

FRAME = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


def start(pieces: list[bytes]) -> tuple[Hello | None, bytes]:
    """Feed until the greeting knows; returns its verdict and all that follows."""
    greeting = Greeting()
    for number, piece in enumerate(pieces):
        if (verdict := greeting.feed(piece)) is not None:
            return verdict[0], verdict[1] + b"".join(pieces[number + 1 :])
    raise AssertionError("never told")


def test_hello_of_the_pump_is_understood_in_every_split() -> None:
    line = pump.hello('/srv/my "tools"\\ä\n\U0001f40d', "review")
    stream = line + FRAME
    for at in range(len(stream) + 1):
        hello, rest = start([stream[:at], stream[at:]])
        assert hello is not None
        assert (hello.folder, hello.mode) == ('/srv/my "tools"\\ä\n\U0001f40d', "review")
        assert rest == FRAME


def test_hello_makes_a_relative_folder_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    hello, _ = start([pump.hello("etc", "")])
    assert hello is not None
    assert hello.folder == "/etc"


def test_client_without_a_pump_is_served_from_its_first_byte() -> None:
    assert start([bytes([byte]) for byte in FRAME]) == (None, FRAME)
    assert start([b"\n"]) == (None, b"\n")


@pytest.mark.parametrize(
    "line", [b'{"mcpdesk":2}\n', b'{"mcpdesk":1}\n', b'{"mcpdesk":\n', b'{"mcpdesk":"\xff"}\n']
)
def test_broken_hello_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Greeting().feed(line)


def test_endless_hello_is_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        Greeting().feed(b'{"mcpdesk":"' + b"x" * LIMIT)
