"""The files a new server folder begins with: one of each kind, small enough to be read at once."""

from __future__ import annotations

import json


def scaffold(name: str) -> dict[str, str]:
    """Relative path -> text, for a server of that name."""
    return {"mcp.json": _manifest(name), **_FILES}


def _manifest(name: str) -> str:
    manifest = {
        "name": name,
        "title": name.replace("-", " ").replace("_", " ").capitalize(),
        "version": "0.1.0",
        "description": "What this server is for, in one sentence.",
        "instructions": "Call greet with a name. InvokeSkill knows the skill welcome.",
        "builtins": ["InvokeSkill"],
    }
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


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
