"""One value of a message is replaced, and no other byte changes."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.reading import splicing
from mcpdesk.protocol.reading.splicing import with_value, with_values


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


@pytest.mark.parametrize("gap", ["", " ", "\n\t "])
def test_several_values_change_at_once_and_the_message_is_not_decoded(
    gap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str, values: object) -> bytes:
        raise AssertionError("it is decoded")

    monkeypatch.setattr(splicing, "_with_values_in_text", fail)
    parts = [
        "{",
        '"params"',
        ":",
        "{",
        '"_meta"',
        ":",
        "{",
        '"n"',
        ":",
        "1.50e1",
        ",",
        '"t"',
        ":",
        "{t}",
        "}",
    ]
    parts += [
        ",",
        '"text"',
        ":",
        '"\\"}ü"',
        "}",
        ",",
        '"i\\u0064"',
        ":",
        "{id}",
        ",",
        '"more"',
        ":",
        "[1 ,2]",
        "}",
    ]
    text = gap.join(["", *parts, ""])

    def filled(identifier: str, token: str) -> bytes:
        return text.replace("{id}", identifier).replace("{t}", token).encode()

    values: dict[tuple[str, ...], str | int] = {("id",): "a", ("params", "_meta", "t"): 12}
    assert with_values(filled("77", '"long"'), values) == filled('"a"', "12")
    assert with_values(filled("77", "1"), {}) == filled("77", "1")


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1,"id":2}',
        b'{"a":1,"a":2,"id":2}',
        b'{"a":"1","a":"1, ","id":2}',
        b'{"a":[1],"a":[],"id":2}',
    ],
)
def test_a_message_that_repeats_any_name_is_left_to_others(data: bytes) -> None:
    assert with_value(data, ("id",), "a") is None


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
