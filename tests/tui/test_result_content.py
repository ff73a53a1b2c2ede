"""Results as blocks to draw, and their parts as files to save."""

from __future__ import annotations

import base64

import pytest

from mcpdesk.tui.results.result_content import (
    BlockKind,
    blocks,
    file_name,
    plain_text,
    savable_parts,
    text_block,
)


def kinds(*content: dict[str, object]) -> list[BlockKind]:
    return [block.kind for block in blocks({"content": list(content)})]


def test_text_is_drawn_as_what_it_looks_like() -> None:
    assert text_block('{"a": 1}').kind is BlockKind.JSON
    assert text_block("{not json").kind is BlockKind.TEXT
    assert text_block("# Title\n\n* one\n* two").kind is BlockKind.MARKDOWN
    assert text_block("# Title\n\n* one", "text/plain").kind is BlockKind.TEXT
    assert text_block("plain", "text/markdown").kind is BlockKind.MARKDOWN
    assert text_block("[]", "application/problem+json").value == []


def test_blocks_come_in_order_and_unknown_ones_as_they_are() -> None:
    data = base64.b64encode(b"x").decode()
    assert kinds(
        {"type": "text", "text": "a"},
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "x://y", "name": "y"},
        {"type": "resource", "resource": {"uri": "x://y", "text": "t"}},
        {"type": "hologram"},
    ) == [BlockKind.TEXT, BlockKind.IMAGE, BlockKind.BYTES, BlockKind.LINK, BlockKind.TEXT, BlockKind.JSON]


def test_prompt_messages_carry_their_roles() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "hi"}}
    found = blocks(
        {"messages": [message, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}]}
    )
    assert [block.text for block in found] == ["user", "hi", "assistant", "ho"]


def test_blobs_are_dumped_and_broken_ones_told() -> None:
    blob = {"uri": "x://y", "mimeType": "application/zip", "blob": base64.b64encode(b"PK\x03\x04").decode()}
    (block,) = blocks({"contents": [blob]})
    assert block.text == "000000  50 4b 03 04" + " " * 39 + "PK··"
    assert block.note == "x://y · application/zip, 4 B"
    (broken,) = blocks({"contents": [{"uri": "x://y", "blob": "***"}]})
    assert broken.note == "x://y, not valid base64"


def test_images_are_left_packed_and_of_large_blobs_the_start_is_looked_at() -> None:
    data = base64.b64encode(b"x" * 10_000).decode()
    (image,) = blocks({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
    assert (image.kind, image.encoded, image.note) == (BlockKind.IMAGE, data, "image/png, 10.0 kB")
    drawing = base64.b64encode(b"<svg/>").decode()
    (text,) = blocks({"content": [{"type": "image", "data": drawing, "mimeType": "image/svg+xml"}]})
    assert (text.kind, text.text, text.note) == (BlockKind.TEXT, "<svg/>", "image/svg+xml, 6 B")
    (sound,) = blocks({"content": [{"type": "audio", "data": data, "mimeType": "audio/wav"}]})
    assert sound.note == "audio/wav, 10.0 kB, first 4,096 bytes"
    assert len(sound.text.splitlines()) == 256


def test_malformed_results_are_no_accident() -> None:
    assert blocks({"content": "oops", "contents": [5], "messages": [{"content": 3}]}) == [
        blocks({"messages": [{"content": 3}]})[0]
    ]


def test_copying_as_text_gives_the_texts() -> None:
    assert plain_text({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) == "a\nb"
    assert plain_text({"x": 1}) == '{\n  "x": 1\n}'


PIXEL = base64.b64encode(b"pixel").decode()


def saved(result: dict[str, object]) -> list[tuple[str, bytes]]:
    *parts, whole = savable_parts(result, "my tool")
    assert whole.name == "my-tool.json" and whole.data.startswith(b"{")
    assert parts.pop().name == "my-tool.md"
    return [(part.name, part.data) for part in parts]


def test_blocks_of_a_tool() -> None:
    blocks = [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "audio", "data": PIXEL, "mimeType": "audio/unheard-of"},
        {"type": "resource", "resource": {"uri": "file:///a/b.csv", "text": "1,2"}},
        {"type": "resource_link", "uri": "file:///c"},
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
    ]
    assert saved({"content": blocks}) == [
        ("my-tool.txt", b"hello"),
        ("my-tool.png", b"pixel"),
        ("my-tool.bin", b"pixel"),
        ("b.csv", b"1,2"),
    ]


def test_contents_of_a_resource_and_messages_of_a_prompt() -> None:
    contents = [
        {"uri": "file:///logo.png", "blob": PIXEL, "mimeType": "image/png"},
        {"uri": "resource://notes", "text": "# a", "mimeType": "text/markdown"},
    ]
    assert [name for name, _ in saved({"contents": contents})] == ["logo.png", "notes.md"]
    messages = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    assert saved({"messages": messages}) == [("my-tool.txt", b"hi")]


@pytest.mark.parametrize(
    ("texts", "table"),
    [
        (['[{"a": 1}, {"a": 2}]'], b"a\n1\n2\n"),
        (['{"a": 1}', '{"a": 2}'], b"a\n1\n2\n"),
        (['{"a": 1}', "two"], None),
        (["one", "two"], None),
    ],
)
def test_json_texts_that_are_a_list_of_objects_are_also_a_table(
    texts: list[str], table: bytes | None
) -> None:
    content = [{"type": "text", "text": text} for text in texts]
    tables = [part.data for part in savable_parts({"content": content}, "t") if part.name == "t.csv"]
    assert tables == ([] if table is None else [table])


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("../../etc/passwd", "etc-passwd"),
        (".bashrc", "bashrc"),
        ("", "result"),
        ("a b\x1b[31m\n", "a-b-31m"),
        ("x" * 300, "x" * 80),
    ],
)
def test_names_are_plain(said: str, name: str) -> None:
    assert file_name(said) == name
    assert saved({"contents": [{"uri": f"file:///{said}.txt", "text": ""}]})[0][0].count("/") == 0
