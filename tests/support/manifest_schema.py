"""`docs/mcp.schema.json`, which editors complete `mcp.json` with; run as a module, it prints the file."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mcpdesk.features.program_tools.command_tools import Command
from mcpdesk.hosting.folder.manifest import NAME, SCOPE, ManifestFile
from mcpdesk.protocol.catalogue.publication import PUBLIC_NAME
from mcpdesk.settings import SETTINGS, FolderMay, Setting, SettingKind
from mcpdesk.tools import BUILTINS

WORDS = {
    "ManifestFile": {
        "$schema": "Address of this schema; editors complete the file with it.",
        "name": "What the server is called; by default the folder's name.",
        "title": "The name for people.",
        "version": "The version of the server.",
        "description": "What the server is for, in a sentence.",
        "instructions": "What a model should know before it uses the server.",
        "websiteUrl": "Home page of the server.",
        "icons": "Pictures of the server.",
        "builtins": "Built-in tools to offer, in this order.",
        "approvals": "Whether clients may call a tool; * stands for all that are not named.",
        "auth": "Who may call.",
        "modes": "Selections of tools, by name.",
        "commands": "Programs as tools.",
        "publish": "What a server card, server.json and a bundle say besides.",
        "requires": "Packages that the Python files import, such as httpx>=0.27.",
        "settings": "Settings of the program, in force while this folder is the first on the desk.",
    },
    "Auth": {
        "requires_jwt": "Every call needs a bearer token.",
        "jwt": "How tokens are checked.",
        "scopes": "Scopes every token must allow.",
        "includes": "The scopes a broader one stands for.",
        "authorization_servers": "Issuers of tokens, which clients find in the metadata of the server.",
        "resource": "The public URI of the server behind a proxy.",
        "tools": "What single tools ask for in addition.",
    },
    "Publish": {
        "name": "The name in the registry, in reverse-DNS form, such as io.github.ada/profiles.",
        "author": "Who wrote it.",
        "license": "Its licence, such as MIT.",
        "repository": "The URL of its source.",
        "bundle": "The URL its bundle is downloaded from.",
    },
    "Jwt": {
        "algorithms": "Algorithms of signatures that count, such as RS256.",
        "secret_env": "The environment variable with a shared secret.",
        "jwks_file": "A file with public keys, in the folder.",
        "jwks_url": "Where public keys are fetched.",
        "issuer": "The issuer a token must name.",
        "audience": "The audiences a token may be for; by default the server's own URI.",
        "leeway_s": "Tolerated difference of clocks, in seconds.",
    },
    "Needs": {"requires_jwt": "Its callers need a token.", "scopes": "What the token must allow."},
    "Command": {
        "stage": "The first part of the tool's name, before a hyphen.",
        "command": "The second part of the tool's name.",
        "run": "The program and its arguments, each with {parameters} in it.",
        "title": "The name for people.",
        "description": "What the tool does, for models.",
        "parameters": "The JSON Schema of the arguments.",
        "produces": "The files it makes.",
        "folder": "Its working folder, relative to the server folder.",
        "environment": "Environment variables it gets in addition to the usual ones.",
        "requires_env": "Environment variables without which it is not offered.",
        "timeout_ms": "How long it may run.",
        "progress": "Format of its progress output.",
        "annotations": "Hints for clients, such as readOnlyHint.",
        "requires_jwt": "Its callers need a token.",
        "scopes": "What the token must allow.",
        "task": "Whether a call may, or must, become a task.",
        "resume": "Whether a job of it runs again on another machine when the one that ran it dies.",
    },
    "Mode": {"tools": "Names of its tools.", "description": "What it is for."},
}
KINDS: dict[SettingKind, dict[str, Any]] = {
    SettingKind.TEXT: {"type": "string"},
    SettingKind.SECRET: {"type": "string"},
    SettingKind.INTEGER: {"type": "integer"},
    SettingKind.BYTES: {"type": ["integer", "string"]},
    SettingKind.DURATION: {"type": ["integer", "string"]},
    SettingKind.SWITCH: {"type": "boolean"},
    SettingKind.LIST: {"type": ["array", "string"], "items": {"type": "string"}},
    SettingKind.PATH: {"type": "string"},
}


def manifest_schema() -> dict[str, Any]:
    """The schema of `mcp.json`, draft 2020-12."""
    _, definitions = msgspec.json.schema_components([ManifestFile, Command], ref_template="#/$defs/{name}")
    for name, words in WORDS.items():
        for key, text in words.items():
            definitions[name]["properties"][key] = {
                **definitions[name]["properties"][key],
                "description": text,
            }
    for component in definitions.values():
        component.pop("title", None)
    root = definitions.pop("ManifestFile")
    members = root["properties"]
    members["name"]["pattern"] = f"^{NAME}$"
    definitions["Publish"]["properties"]["name"]["pattern"] = f"^{PUBLIC_NAME}$"
    members["builtins"]["items"] = {"enum": list(BUILTINS)}
    members["commands"]["items"] = {"$ref": "#/$defs/Command"}
    definitions["Auth"]["properties"]["scopes"]["items"] = {"type": "string", "pattern": f"^{SCOPE}$"}
    settings = {each.name: _setting(each) for each in SETTINGS if each.folder is not FolderMay.NOT}
    members["settings"] |= {"properties": settings, "additionalProperties": False}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mcp.json of mcpdesk"}
    return {**head, **root, "$defs": definitions}


def _setting(setting: Setting) -> dict[str, Any]:
    schema = {"description": setting.help, **KINDS[setting.kind]}
    if setting.kind is SettingKind.INTEGER:
        schema |= {"minimum": setting.least, "maximum": setting.most}
    if setting.folder is FolderMay.TIGHTEN:
        schema["items"] = {"type": "string", "pattern": r"^[^\s,=]+=(ask|deny)$"}
    if setting.pattern and setting.kind is SettingKind.TEXT:
        schema["pattern"] = f"^(?:{setting.pattern})$"
    return schema


def text() -> str:
    """The text of the file."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
