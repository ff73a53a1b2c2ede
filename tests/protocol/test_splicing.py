"""One value of a message is replaced, and no other byte changes."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.reading.splicing import with_value


@pytest.mark.parametrize(
    ("data", "path", "expected"),
    [
        (b'{"id":1}', ("id",), b'{"id":"a"}'),
        (b' { "n" : 1.50e1 ,\n"id" : 7\t} ', ("id",), b' { "n" : 1.50e1 ,\n"id" : "a"\t} '),
        (b'{"s":"\\u00fc \xc3\xbc }","id":7}', ("id",), b'{"s":"\\u00fc \xc3\xbc }","id":"a"}'),
        (b'{"result":{"id":2},"id":"7"}', ("id",), b'{"result":{"id":2},"id":"a"}'),
        (b'{"n":NaN,"id":7}', ("id",), b'{"n":NaN,"id":"a"}'),
        (b'{"p":{ "_meta": {"t": 1 }}}', ("p", "_meta", "t"), b'{"p":{ "_meta": {"t": "a" }}}'),
    ],
)
def test_only_the_value_changes(data: bytes, path: tuple[str, ...], expected: bytes) -> None:
    assert with_value(data, path, "a") == expected


def test_a_number_and_a_text_beyond_ascii_are_written_as_json() -> None:
    assert with_value(b'{"id":"x"}', ("id",), 12) == b'{"id":12}'
    assert with_value(b'{"id":"x"}', ("id",), 'ü"') == '{"id":"ü\\""}'.encode()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", b'{"id"}', b'{"id":1', b'{"a":1}', b'{"id":1,"id":1}', b'{"id":\xfc}'),
        *(b"{'id':1}", b'{"id":oops}', b'{"id":1 "a":2}', b"{1:2}", b'{"a":' + b"[" * 100_000 + b"}"),
    ],
)
def test_a_text_without_just_one_such_value_is_left_to_others(data: bytes) -> None:
    assert with_value(data, ("id",), "a") is None
    assert with_value(b'{"p":%b}' % data, ("p", "id"), "a") is None
