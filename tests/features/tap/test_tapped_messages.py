"""The bytes through a tap become messages, in any chunks; the recorder keeps a bounded part."""

from __future__ import annotations

import pytest

from mcpdesk.features.tap.tapped_messages import MAX_CHARACTER_BYTES, TappedMessage, TappedMessages
from mcpdesk.recorder.record import END_BYTES

KEPT = 10_000
PRETTY = b'{\n "a": "}\\"",\n "b": [1]\n}'


def whole(message: bytes) -> TappedMessage:
    """A message of which everything is recorded."""
    return message, b"", len(message)


def cut(message: bytes) -> TappedMessage:
    """A message of which the beginning and the end are recorded."""
    return message[: KEPT + MAX_CHARACTER_BYTES], message[-END_BYTES:], len(message)


def found(messages: TappedMessages, data: bytes, step: int) -> list[TappedMessage]:
    """Messages in data that arrives in chunks of `step` bytes."""
    chunks = [data[start : start + step] for start in range(0, len(data), step)]
    return [each for chunk in chunks for each in messages.feed(chunk, len(chunk))]


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_chunks_become_messages(step: int) -> None:
    data = b'{"a":1}\r\n\n' + PRETTY + b"\nlog\n" + b"Content-Length: 2\r\n\r\n{}" + b"[unfinished"
    messages = TappedMessages(KEPT)
    assert [*found(messages, data, step), *messages.rest()] == [
        whole(each) for each in (b'{"a":1}', PRETTY, b"log", b"Content-Length: 2\r\n\r\n{}", b"[unfinished")
    ]


@pytest.mark.parametrize("step", [4_096, 50_000])
def test_of_a_long_message_the_beginning_and_the_end_are_kept(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TappedMessages, "MAX_MESSAGE_BYTES", 100_000)
    pretty = b'{\n"a": "' + b"x" * 50_000 + b'"\n}'
    line = b'{"a": "' + b"y" * 150_000 + b'"}'
    messages = TappedMessages(KEPT)
    came = found(messages, pretty + b"\n" + line + b"\n" + PRETTY + b"\n" + line, step)
    assert [*came, *messages.rest()] == [cut(pretty), cut(line), whole(PRETTY), cut(line)]


def test_after_a_loss_the_next_line_is_whole() -> None:
    messages = TappedMessages(KEPT)
    assert list(messages.feed(b'{"a":1}\n{\n"b":', 14)) == [whole(b'{"a":1}')]
    lost = b"\n" + PRETTY[:5]
    assert list(messages.feed(lost, 50_000)) == [whole(b"{"), (b'"b":', b"", 50_003 - len(PRETTY[:5]))]
    assert list(messages.feed(PRETTY[5:] + b"\n", len(PRETTY) - 4)) == [whole(PRETTY)]
    assert list(messages.feed(b"", 9)) == [] and list(messages.rest()) == [(b"", b"", 9)]
