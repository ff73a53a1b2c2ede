"""Entries that a replica writes for desks: each message once, for its desk, within bounds."""

from __future__ import annotations

from mcpdesk.features.replicas.desk.engine_publisher import MAX_ENTRY_BYTES, MAX_STREAM_BYTES, _Entries
from mcpdesk.features.replicas.desk.engine_streams import DESK, MESSAGES, NUMBER, WELCOME


def test_messages_in_a_row_for_the_same_desk_share_an_entry() -> None:
    entries = _Entries()
    for desk, message in (("", b"a"), ("", b"b"), ("d1", b"c"), ("d2", b"d"), ("d2", b"e"), ("", b"f")):
        entries.put(desk, message)
    assert list(entries.drain()) == [
        {MESSAGES: b"ab", NUMBER: b"1"},
        {MESSAGES: b"c", DESK: b"d1", NUMBER: b"2"},
        {MESSAGES: b"de", DESK: b"d2", NUMBER: b"3"},
        {MESSAGES: b"f", NUMBER: b"4"},
    ]
    assert list(entries.drain()) == []


def test_a_welcome_comes_after_what_was_put_before_it() -> None:
    entries = _Entries()
    entries.put("", b"a")
    entries.add("d1", {WELCOME: b"w"})
    entries.put("", b"b")
    assert [set(fields) - {NUMBER} for fields in entries.drain()] == [{MESSAGES}, {WELCOME, DESK}, {MESSAGES}]


def test_an_entry_is_larger_than_its_limit_only_if_a_single_message_is() -> None:
    entries, half = _Entries(), MAX_ENTRY_BYTES // 2
    for size in (half, half, 1, half, 2 * MAX_ENTRY_BYTES, 1, MAX_ENTRY_BYTES - 1):
        entries.put("", b"x" * size)
    sizes = [len(fields[MESSAGES]) for fields in entries.drain()]
    assert sizes == [MAX_ENTRY_BYTES, half + 1, 2 * MAX_ENTRY_BYTES, MAX_ENTRY_BYTES]


def test_the_newest_entries_are_kept_up_to_the_size_of_a_stream() -> None:
    entries, large = _Entries(), {MESSAGES: b"x" * (MAX_STREAM_BYTES - 100)}
    entries.note_written("1-0", {})
    entries.note_written("2-0", large)
    assert entries.oldest == "1-0"
    entries.note_written("3-0", {MESSAGES: b"x" * 101})
    assert entries.oldest == "3-0"
    entries.note_written("4-0", {MESSAGES: b"x" * (MAX_STREAM_BYTES + 1)})
    assert entries.oldest == "4-0", "the newest entry is kept, whatever its size"
