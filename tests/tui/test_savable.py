"""What of a result can be saved, and under which names."""

from __future__ import annotations

import base64

import pytest

from mcpdesk.tui.results.result_content import file_name, savables

PIXEL = base64.b64encode(b"pixel").decode()


def saved(result: dict[str, object]) -> list[tuple[str, bytes]]:
    *parts, whole = savables(result, "my tool")
    assert whole.name == "my-tool.json" and whole.data.startswith(b"{")
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
