"""Text with terminal commands for all places that a remote party fills, and a parser of program output."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

COMMANDS = (
    "\x1b]52;c;UFdORQ=\x07\x1b]0;T\x07\x1b[?1049l\x1bc\x1b[5n\x1b_Gi=7;x\x1b\\"
    "\x9b?1049l\x9d2;T\x9c\u202e\x08[/x]"
)
"""Set the clipboard and the title, leave the other screen, reset, ask back; C1 forms of the same; reversed
writing; a backspace; and what would be an error as markup."""
_ATTRIBUTES = re.compile(r"\x1b\[[\d;:]*m")
_COMMAND = re.compile(
    r"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~])"
    r"|\x1b(?P<string>[\]P_^X](?:[^\x07\x1b]|\x1b(?!\\))*)(?:\x07|\x1b\\)"
    r"|\x1b(?P<other>[ -/]*[0-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069])",
    re.DOTALL,
)
_NUMBERS = re.compile(r"\d+")
OWN_COMMANDS = re.compile(
    r"csi \d*(;\d*)*[mHABCDGdJKf]"  # colours and the cursor
    r"|csi \?(7|25|1000|1003|1004|1006|1015|1016|1049|2004|2026|2031|2048)[hl]"  # modes, set and put back
    r"|csi \?(2026|2048)\$p|csi 6n|csi [<>=?]\d*u|csi \d*n"
    r"|string \]22;[a-z]+"  # the shape of the mouse pointer
    r"|control [\n\r]"
)
"""Control sequences that draw the screen."""


def hostile(tag: str) -> str:
    """A hostile text that can be recognised by its first letters."""
    return f"{tag}{COMMANDS}"


def commands(raw: bytes) -> Counter[str]:
    """Terminal commands a program sent besides text: each with its count.

    Bytes that are not UTF-8 raise an error: a C1 control may hide among them.
    """
    programs: Counter[str] = Counter()
    for match in _COMMAND.finditer(_ATTRIBUTES.sub("", raw.decode())):
        programs[f"{match.lastgroup} {match[match.lastgroup or 0]}"] += 1
    return programs


def foreign(raw: bytes) -> list[str]:
    """Commands in the output that do not belong to drawing the screen."""
    return sorted(command for command in commands(raw) if not OWN_COMMANDS.fullmatch(command))


def letters(raw: bytes) -> str:
    """Drawn text, in the order of drawing."""
    return _COMMAND.sub("", raw.decode(errors="ignore"))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": hostile("s0"),
    "properties": {
        "line": {
            "type": "string", "title": hostile("s1"), "description": hostile("s2"), "default": hostile("s3"),
        },
        "hint": {"type": "string", "examples": [hostile("s4")]},
        "text": {"type": "string", "default": f"{hostile('s5')}\n{hostile('s6')}"},
        "pick": {"enum": [hostile("s7"), "b"], "default": hostile("s7")},
        "many": {"type": "array", "items": {"enum": [hostile("s8"), "b"]}},
        "names": {
            "type": "object", "additionalProperties": {"type": "string"}, "default": {hostile("s9"): "v"},
        },
        "any": {"default": {"k": hostile("sa")}},
        hostile("sb"): {"type": "string"},
        "fixed": {"const": hostile("sc")},
        "one": {"oneOf": [{"title": hostile("sd"), "type": "object"}, {"title": "n", "type": "number"}]},
    },
}  # fmt: skip
TOOLS = '''
import asyncio
from mcpdesk import Context, Option, Page, audio, embedded, fail, resource_link, tool
from words import COMMANDS, SCHEMA

def hostile(tag):
    return tag + COMMANDS

@tool(title=hostile("t0"), description=hostile("t1"), while_planning=True)
async def aa_echo(ctx: Context, x: str = "plain") -> dict[str, str]:
    print(hostile("t2"))
    await ctx.log("warning", hostile("t3"), logger=hostile("t4"))
    await ctx.progress(1, 2, hostile("t5"))
    return {hostile("t6"): "", "x": x}

@tool
async def bb_blocks(ctx: Context) -> list:
    """Blocks."""
    return [hostile("b0"), embedded("test:" + hostile("b1"), hostile("b2"), hostile("b3"))]

@tool
async def cc_fails() -> str:
    """Fail."""
    fail(hostile("f0"))

@tool
async def dd_breaks() -> str:
    """Break."""
    raise RuntimeError(hostile("f1"))

@tool
async def ee_asks(ctx: Context) -> str:
    """Ask."""
    form = {"type": "object", "properties": {
        "q": {"type": "string", "title": hostile("q1"), "description": hostile("q2"),
              "default": hostile("q3")}}}
    answer = await ctx.elicit(hostile("q0"), form)
    page = Page(hostile("q4"), header=hostile("q5"), detail=hostile("q6"),
                options=(Option(hostile("q7"), hostile("q8")), Option("other")))
    await ctx.ask([page])
    return repr(answer.content)
'''
FORMS = '''
from words import SCHEMA
INPUT_SCHEMA = SCHEMA
async def handler(args, context):
    """Give back."""
    return args
'''
RESOURCES = """
from mcpdesk import prompt, resource
from words import COMMANDS

def hostile(tag):
    return tag + COMMANDS

@resource("test://one", name=hostile("r0"), title=hostile("zxr1"), description=hostile("r2"))
async def one() -> str:
    return hostile("r3")

@resource("test://two/{id}", name=hostile("wwr4"), complete=lambda value: [hostile("r5")])
async def two(id: str) -> str:
    return id
"""
PROMPTS = """
from mcpdesk import prompt
from words import COMMANDS

def hostile(tag):
    return tag + COMMANDS

@prompt(title=hostile("p0"), description=hostile("p1"), complete={"a": [hostile("p2")]})
async def ask_about(a: str) -> str:
    return hostile("p3") + a
"""
BUILTINS = ["BackgroundBash", "SetCallback", "TaskManager", "PlanMode", "InvokeSkill"]


def write_folder(folder: Path) -> Path:
    """Write a server folder that is hostile in every text its author can choose."""
    for name in ("tools", "resources", "prompts", "skills/wqwq"):
        (folder / name).mkdir(parents=True)
    manifest = {"name": "hostile", "title": hostile("m0"), "description": hostile("m1"), "builtins": BUILTINS}
    (folder / "mcp.json").write_text(json.dumps({**manifest, "instructions": hostile("m2")}))
    (folder / "words.py").write_text(f"COMMANDS = {COMMANDS!r}\nSCHEMA = {SCHEMA!r}\n")
    (folder / "tools" / "aa.py").write_text(TOOLS)
    (folder / "tools" / "a-form.py").write_text(FORMS)
    (folder / "tools" / "bad\x1b]0;T\x07.py").write_text("1 / 0")
    (folder / "resources" / "res.py").write_text(RESOURCES)
    (folder / "prompts" / "ask.py").write_text(PROMPTS)
    front = json.dumps(hostile("k0"))
    (folder / "skills" / "wqwq" / "SKILL.md").write_text(
        f"---\nname: wqwq\ndescription: {front}\n---\n{hostile('k1')}"
    )
    return folder


def write_state(state: Path, tool: str = "aa_echo") -> None:
    """Write state files with hostile content, as if left by an earlier desk or another program."""
    state.mkdir(parents=True, exist_ok=True)
    past = {"time": 1.0, "server": "hostile", "item": f"tool {tool}", "arguments": {"x": hostile("h0")}}
    (state / "calls.jsonl").write_text(json.dumps({**past, "status": hostile("h1"), "elapsed_s": 0.1}) + "\n")
    saved = {f"hostile tool {tool}": {hostile("h2"): {"x": hostile("h3")}}}
    (state / "saved-calls.json").write_text(json.dumps(saved))
    (state / "filters.txt").write_text(f"{hostile('h4')}\n")
