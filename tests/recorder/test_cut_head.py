"""The heads of large messages are known from their beginning and their end."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.recorder.index.exchange import ExchangeKind
from mcpdesk.recorder.index.message_heads import MALFORMED, Head, read_cut, read_heads
from mcpdesk.recorder.record import END_BYTES, MAX_KEPT_BYTES

SEED = 20260728
ROUNDS = 300


def cut(whole: bytes) -> Head:
    return read_cut(whole[:MAX_KEPT_BYTES], whole[-END_BYTES:])


def large(chance: random.Random) -> Any:
    """A value larger than the limit, with all texts that could mislead the parser."""
    text = '{"id": 9, "method": "x"}, \\"],}' * chance.randrange(3_000, 5_000)
    return chance.choice(
        (
            text,
            "x" * 100_000 + '\\",\\"id\\":5',
            [text, {"id": 7, "isError": True}],
            {"a": {"b": text}, "id": 5, "method": "no"},
            [{"id": number, "name": "n"} for number in range(9_000)],
            list(range(30_000)),
            {"deep": [[{"text": text, "isError": True}]]},
        )
    )


def shuffled(members: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    names = list(members)
    chance.shuffle(names)
    return {name: members[name] for name in names}


def message(chance: random.Random) -> dict[str, Any]:
    """A request, a response or a notification with something large in it, its members in any order."""
    identifier = chance.choice((1, -7, "a}b", 'q"', 1 << 40))
    meta = {"progressToken": "t", "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "{[", "version": "1"}}  # fmt: skip
    kind = chance.randrange(4)
    base: dict[str, Any] = {"jsonrpc": "2.0", "id": identifier}
    if kind == 0:
        params = {"name": "echo", "arguments": {"some": 1, "text": large(chance), "more": 2}, "_meta": meta}
        base |= {"method": "tools/call", "params": shuffled(params, chance)}
    elif kind == 1:
        result = {"content": [{"type": "text", "text": large(chance)}], "isError": chance.random() < 0.5,
                  "resultType": "complete"}  # fmt: skip
        base["result"] = shuffled(result, chance)
    elif kind == 2:
        base["error"] = {"code": -1, "message": "no", "data": large(chance)}
    else:
        del base["id"]
        base |= {"method": "notifications/message", "params": {"level": "info", "data": large(chance)}}
    return shuffled(base, chance)


@pytest.mark.slow
def test_any_large_message_has_the_head_it_would_have_as_a_whole() -> None:
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        given = message(chance)
        indented = chance.random() < 0.2
        whole = orjson.dumps(given, option=orjson.OPT_INDENT_2 if indented else None)
        assert len(whole) > MAX_KEPT_BYTES
        (head,) = read_heads(whole)
        assert replace(cut(whole), tokens=head.tokens) == head, (list(given), indented)


@pytest.mark.parametrize(
    ("beginning", "end"),
    [
        (b"", b""),
        (b"[", b"]"),
        (b"nonsense", b"}"),
        (b'{"a', b""),
        (b"}" * 9, b"}" * 9),
        (b"\xff" * 99, b"\xff"),
    ],
)
def test_what_is_no_message_is_malformed(beginning: bytes, end: bytes) -> None:
    assert read_cut(beginning, end) == MALFORMED


@pytest.mark.slow
def test_any_bytes_have_a_head() -> None:
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        whole = bytearray(orjson.dumps(message(chance)))
        for _ in range(3):
            whole[chance.choice((chance.randrange(200), -chance.randrange(1, 200)))] = chance.randrange(256)
        assert cut(bytes(whole)).kind in ExchangeKind
    brackets = bytes(chance.choice(b'{}[]",:\\ 1a') for _ in range(MAX_KEPT_BYTES))
    assert read_cut(brackets, brackets[-END_BYTES:]).kind in ExchangeKind
