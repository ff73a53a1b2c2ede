"""Import and use of the authoring API: imports are cheap, and decorators only add a note."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mcpdesk
from mcpdesk.errors import HandlerError, Refusal
from mcpdesk.server.offer.authoring import Note, fail, message, note_of, prompt, refuse, resource, tool


async def function() -> None: ...


@pytest.mark.process
def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys; old = set(sys.modules); import mcpdesk; print(*sorted(set(sys.modules) - old))"
    root = Path(mcpdesk.__file__).parent.parent
    answer = subprocess.run([sys.executable, "-S", "-c", script], cwd=root, capture_output=True, check=True)
    assert answer.stdout.split() == [b"__future__", b"mcpdesk"]


def test_every_exported_name_exists() -> None:
    for name in mcpdesk.__all__:
        assert getattr(mcpdesk, name) is not None
    assert set(mcpdesk.__all__) <= set(dir(mcpdesk))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mcpdesk.nothing


def test_decorators_return_the_function_itself() -> None:
    async def one() -> None: ...
    async def two() -> None: ...
    async def three() -> None: ...

    assert tool(one) is one
    assert tool(name="x")(two) is two
    assert prompt(three) is three
    assert note_of(one) == Note("tool")
    assert note_of(function) is None
    assert note_of(5) is None
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        prompt(timeout=5)  # type: ignore[call-overload]


def test_hints_become_annotations_and_explicit_ones_win() -> None:
    async def one() -> None: ...

    decorate = tool(
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        annotations={"destructiveHint": True, "title": "T"},
        requires_env="A",
        icons=["https://example.org/a.png", {"src": "b", "theme": "dark"}],
    )
    note = note_of(decorate(one))
    assert note is not None
    assert note.annotations == {
        "readOnlyHint": True,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
        "title": "T",
    }
    assert note.requires_env == ("A",)
    assert note.icons == ({"src": "https://example.org/a.png"}, {"src": "b", "theme": "dark"})


def test_resource_notes_its_uri() -> None:
    async def one() -> None: ...

    note = note_of(resource("x://{a}", mime_type="text/plain", requires_env=["A", "B"])(one))
    assert note is not None
    assert (note.kind, note.uri, note.mime_type, note.requires_env) == (
        "resource",
        "x://{a}",
        "text/plain",
        ("A", "B"),
    )


def test_fail_carries_message_and_data() -> None:
    with pytest.raises(HandlerError) as caught:
        fail("no", code=7)
    assert (caught.value.message, caught.value.data) == ("no", {"code": 7})
    with pytest.raises(HandlerError) as caught:
        fail("no")
    assert caught.value.data is None


def test_message_wraps_text_and_keeps_blocks() -> None:
    assert message("hi") == {"role": "user", "content": {"type": "text", "text": "hi"}}
    block = mcpdesk.image(b"x")
    assert message(block, role="assistant") == {"role": "assistant", "content": block}


def test_refuse_carries_an_error_but_none_of_the_protocols_own() -> None:
    with pytest.raises(Refusal) as refused:
        refuse("not today", data={"why": "closed"})
    assert (refused.value.code, refused.value.message, refused.value.data) == (
        -32603,
        "not today",
        {"why": "closed"},
    )
    with pytest.raises(Refusal) as own:
        refuse("no", 7)
    assert own.value.code == 7
    for code in (-32000, -32021, -32099):
        with pytest.raises(ValueError, match="reserved by the protocol"):
            refuse("no", code)
    for odd in (7.5, "7", None, 2**60):
        with pytest.raises(ValueError, match="whole number"):
            refuse("no", odd)  # type: ignore[arg-type]


def test_what_ends_a_handler_is_told_as_a_text() -> None:
    with pytest.raises(Refusal) as refused:
        refuse(KeyError("key"), 7)  # type: ignore[arg-type]
    with pytest.raises(HandlerError) as failed:
        fail(5)  # type: ignore[arg-type]
    assert (refused.value.message, failed.value.message) == ("'key'", "5")
