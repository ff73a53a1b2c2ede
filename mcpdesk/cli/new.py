"""`mcpdesk new`: a server folder that runs at once."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import click

from mcpdesk.errors import DeskUserError

EPILOG = """\b
Examples:
  mcpdesk new profiles
  mcpdesk new ~/servers/profiles

The folder has a tool, a resource, a prompt and a skill. Change them while the desk shows them.
"""


@click.command(name="new", epilog=EPILOG, short_help="Make a server folder.")
@click.argument("name")
def new_command(name: str) -> None:
    """Make the server folder NAME, which may be a path, and say what to do next."""
    from mcpdesk.cli.printing import print_text

    place = checked_place(name)
    files = scaffold(place.name)
    make(place, files)
    told = shlex.quote(as_argument(name))
    lines = [f"{told}", *(f"  {path}" for path in files), "", "Next:"]
    lines += [f"  mcpdesk {told}", f"  mcpdesk call {told} greet name=Ada"]
    print_text("\n".join(lines))


def checked_place(name: str) -> Path:
    """Where the folder goes. Raises: DeskUserError for a name no server has, or a place that is taken."""
    from mcpdesk.hosting.folder.manifest import NAME, NAME_RULE

    place = Path(name).expanduser()
    if "://" in name or not re.fullmatch(NAME, place.name):
        raise DeskUserError(f"{place.name!r} is no name for a server.", f"Allowed: {NAME_RULE}.")
    if place.exists() or place.is_symlink():
        what = "folder" if place.is_dir() else "file"
        hint = "Choose another name, or remove it first."
        raise DeskUserError(f"There is a {what} {name!r} already.", hint)
    if not place.parent.is_dir():
        message = f"There is no folder {str(place.parent)!r} to make it in."
        raise DeskUserError(message, "Make that one first.")
    return place


def make(place: Path, files: dict[str, str]) -> None:
    """Write the files into a new folder; nothing stays when that fails.

    Raises: DeskUserError when it cannot be written.
    """
    try:
        place.mkdir()
        try:
            for name, text in files.items():
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
        except OSError:
            shutil.rmtree(place, ignore_errors=True)
            raise
    except OSError as error:
        message = f"{place} cannot be written: {error.strerror}."
        raise DeskUserError(message, "Choose another place.") from None


def as_argument(name: str) -> str:
    """The name as a place on the command line: not one of our commands, and no option."""
    from mcpdesk.cli.main import COMMANDS

    return f"./{name}" if name in COMMANDS else name


def scaffold(name: str) -> dict[str, str]:
    """Return relative path -> text, for a server of that name."""
    manifest = {
        "name": name,
        "title": name.replace("-", " ").replace("_", " ").capitalize(),
        "version": "0.1.0",
        "description": "What this server is for, in one sentence.",
        "instructions": "Call greet with a name. InvokeSkill knows the skill welcome.",
        "builtins": ["InvokeSkill"],
    }
    return {"mcp.json": json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", **_FILES}


_FILES = {
    "tools/greet.py": '''\
"""A tool is a function: its type hints and its docstring are what clients see of it."""

from typing import Annotated, Literal

from mcpdesk import tool

HELLO = {"english": "Hello", "german": "Hallo", "spanish": "Hola"}


@tool(title="Greet", read_only=True, idempotent=True, open_world=False)
async def greet(
    name: Annotated[str, "Who is to be greeted."],
    language: Annotated[Literal["english", "german", "spanish"], "The language to greet in."] = "english",
) -> str:
    """Greet somebody by name."""
    return f"{HELLO[language]}, {name}!"
''',
    "resources/about.md": """\
---
title: About this server
description: What a model should know before it uses the tools.
---
# About this server

A file in `resources/` is a resource; the lines above the text describe it. Say here what your tools work on.
""",
    "prompts/introduce.md": """\
---
title: Introduce somebody
description: Writes a short introduction of a person.
arguments:
  - name: name
    description: Who is to be introduced.
    required: true
  - name: tone
    description: How it should sound.
    choices: [friendly, formal, funny]
---
Introduce {{name}} in three sentences. Begin with what the tool greet says. Tone: {{tone}}
""",
    "skills/welcome/SKILL.md": """\
---
title: Welcome somebody
description: Greet a newcomer and show them around this server.
---

# Welcome $ARGUMENTS

1. Call `greet` with their name, in the language they write in.
2. Read `resource://about` and tell them in two sentences what this server is for.
3. Ask what they want to do first.
""",
}
