"""A server folder with every kind of content and every optional field, for all revisions."""

from __future__ import annotations

from pathlib import Path

from tests.support.folders import write

TOOLS = '''
"""Tools that return everything there is."""

from typing import Any, Literal

from mcpdesk import Context, ToolResult, audio, embedded, fail, image, resource_link, text, tool

ICON = {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
NOTES = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-12T15:00:58Z"}
META = {"example.org/kept": True}


@tool(title="Blocks", read_only=True, destructive=False, icons=[ICON], meta=META)
async def blocks() -> list[dict[str, Any]]:
    """Every kind of block."""
    return [
        text("plain", annotations=NOTES, _meta=META),
        image(b"not really", annotations=NOTES),
        audio(b"not really", _meta=META),
        embedded("note://1", "text", "text/plain", annotations=NOTES),
        embedded("note://2", b"bytes"),
        resource_link("note://3", "third", title="Third", mimeType="text/plain", size=3, icons=[ICON]),
    ]


@tool
async def numbers() -> list[float]:
    """An array with a schema."""
    return [1.5, 2]


@tool
async def table(rows: int | None = None, kind: Literal["a", "b"] = "a") -> dict[str, float]:
    """An object with a schema."""
    return {"rows": 0.5 if rows is None else rows}


@tool
async def nothing() -> None:
    """No result at all."""


@tool
async def explicit() -> ToolResult:
    """A result said in full."""
    return ToolResult((text("said"),), {"ratio": 0.25, "deep": {"list": [1, None]}}, meta=META)


@tool
async def refused() -> str:
    """A refusal with data."""
    fail("no", code=7, share=0.5)


@tool
async def steps(ctx: Context) -> str:
    """Progress and logs of every level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        await ctx.log(level, {"level": level, "share": 0.5})
    await ctx.progress(0.5, 2.5, "half")
    await ctx.progress(1)
    return "done"
'''

QUESTIONS = '''
"""Tools that ask their client for everything there is."""

from mcpdesk import Context, tool

TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
FORM = {
    "name": {"type": "string", "title": "Name", "description": "Who?", "minLength": 1, "maxLength": 9},
    "mail": {"type": "string", "format": "email", "default": "a@b.c"},
    "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
    "share": {"type": "number", "minimum": 0, "default": 1},
    "agreed": {"type": "boolean", "default": True},
    "plain": {"type": "string", "enum": ["a", "b"], "default": "a"},
    "colour": {"type": "string", "oneOf": TITLED},
}
CHOICES = {
    "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 0},
    "titled": {"type": "array", "items": {"anyOf": TITLED}, "maxItems": 2},
}
TOOL = {"name": "look", "inputSchema": {"type": "object"}}
USE = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
SEEN = {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "nothing"}]}


@tool
async def form(ctx: Context) -> str:
    """Ask for one of everything."""
    return (await ctx.elicit("Fill it in.", {"type": "object", "properties": FORM})).action


@tool
async def choices(ctx: Context) -> str:
    """Ask for several of some."""
    return (await ctx.elicit("Choose.", {"type": "object", "properties": CHOICES})).action


@tool
async def link(ctx: Context) -> str:
    """Send somebody to a page."""
    return (await ctx.elicit_url("Sign in.", "https://example.org/in")).action


@tool
async def sampled(ctx: Context) -> str:
    """Let a model write, with every option."""
    said = await ctx.sample(
        ["Hello", {"role": "assistant", "content": {"type": "image", "data": "", "mimeType": "image/png"}}],
        max_tokens=10,
        system="Be brief.",
        temperature=0.5,
        stop=["."],
        preferences={"hints": [{"name": "m"}], "costPriority": 0.5},
        include_context="thisServer",
        metadata={"share": 0.5},
    )
    return said.text


@tool
async def tooled(ctx: Context) -> str:
    """Let a model use tools."""
    messages = [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [SEEN]}]
    return (await ctx.sample(messages, max_tokens=10, tools=[TOOL], tool_choice={"mode": "auto"})).text


@tool
async def rooted(ctx: Context) -> list[str]:
    """Ask where to look."""
    return [root.uri for root in await ctx.list_roots()]


@tool(task="optional")
async def errand(ctx: Context) -> str:
    """Work that may outlive its call, and asks on the way."""
    await ctx.progress(1, 2, "half way")
    return (await ctx.elicit("Go on?", {"type": "object", "properties": {}})).action


@tool
async def faulty(ctx: Context) -> str:
    """Ask for what is not there."""
    raise ValueError("faulty")


'''

RESOURCES = '''
"""Resources of every shape."""

from typing import Any

from mcpdesk import resource

ICON = {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["any"]}
NOTES = {"audience": ["user", "assistant"], "priority": 1, "lastModified": "2026-01-12T15:00:58Z"}


@resource("data://facts", title="Facts", annotations=NOTES, icons=[ICON], meta={"example.org/kept": 1})
async def facts() -> dict[str, Any]:
    """JSON."""
    return {"ratio": 0.5}


@resource("data://bytes", mime_type="application/octet-stream")
async def raw() -> bytes:
    """Bytes."""
    return b"bytes"


@resource(
    "item://{number}",
    title="Item",
    annotations=NOTES,
    icons=[ICON],
    meta={"example.org/kept": 1},
    complete=lambda value: (str(each) for each in range(1_000)),
)
async def item(number: str) -> str:
    """One of many."""
    return number


@resource("broken://it")
async def broken() -> str:
    """Never read."""
    raise ValueError("out of order")
'''

PROMPTS = '''
"""Prompts of every shape."""

from typing import Any

from mcpdesk import audio, embedded, image, message, prompt, resource_link

ICON = {"src": "https://example.org/i.png"}


@prompt(title="Talk", icons=[ICON], meta={"example.org/kept": 1})
async def talk(topic: str, tone: str = "kind") -> list[dict[str, Any]]:
    """A conversation.

    Args:
        topic: What about.
    """
    blocks = [image(b"x"), audio(b"x"), embedded("note://1", "text"), resource_link("note://2", "second")]
    return [message(f"{topic}, {tone}"), *[message(block, role="assistant") for block in blocks]]
'''

PLAIN = "---\ndescription: Plain.\narguments: [{name: a, choices: [b, c]}]\n---\n{{a}}\n"

MANIFEST = """{
  "name": "gallery", "version": "3.1.4", "title": "Gallery", "description": "Everything.",
  "instructions": "Look.", "websiteUrl": "https://example.org",
  "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
  "builtins": ["Bash", "AskUserQuestion"], "settings": {"page_size": 3}
}"""


def gallery(folder: Path) -> Path:
    """Write the folder to `folder` and return it."""
    write(folder, {"mcp.json": MANIFEST, "tools/all.py": TOOLS, "resources/all.py": RESOURCES})
    write(folder, {"tools/questions.py": QUESTIONS})
    write(folder, {"resources/notes.md": "# Notes\n", "resources/dot.png": "\x01", "prompts/all.py": PROMPTS})
    return write(folder, {"prompts/plain.md": PLAIN})
