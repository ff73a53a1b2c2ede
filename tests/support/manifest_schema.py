"""`docs/mcp.schema.json`, which editors complete `mcp.json` with; run as a module, it prints the file."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from mcpdesk.hosting.folder.manifest import NAME, SCOPE, ManifestFile
from mcpdesk.protocol.catalogue.publication import PUBLIC_NAME
from mcpdesk.setting_values import FolderUse, Setting, SettingKind
from mcpdesk.settings import SETTINGS
from mcpdesk.tools import BUILTINS

WORDS = {
    "ManifestFile": {
        "$schema": "Address of the JSON Schema of mcp.json. Editors use it to complete the file.",
        "name": "Name of the server. By default the name of the folder.",
        "title": "Name that people see.",
        "version": "Version of the server.",
        "description": "Purpose of the server, in one sentence.",
        "instructions": "Text that a model reads before it uses the server.",
        "websiteUrl": "Home page of the server.",
        "icons": "Icons of the server. Each object has src, and may have mimeType, sizes and theme.",
        "builtins": "Built-in tools to offer, in this order.",
        "approvals": "Policy of each tool, by its name. The name * stands for all tools that are not listed.",
        "auth": "Rules for access to the server.",
        "modes": "Modes of the server, by name. Each mode offers some of the tools.",
        "commands": "Programs that are offered as tools.",
        "publish": "Data for the server card, server.json and the bundle. It is not sent in MCP sessions.",
        "requires": "Packages that the Python files import, such as httpx>=0.27.",
        "settings": "Settings of mcpdesk. They apply if this folder is the first one that mcpdesk hosts.",
    },
    "Auth": {
        "requires_jwt": "If true, every call needs a bearer token (JWT).",
        "jwt": "Rules for checking tokens.",
        "scopes": "Scopes that every token must have.",
        "includes": "Narrower scopes that a broader scope includes. The key is the broader scope.",
        "authorization_servers": "URLs of authorization servers. Clients read them in the server's metadata.",
        "resource": "Public URL of the server, if it is behind a proxy.",
        "tools": "Additional requirements for callers of single tools, by tool name.",
    },
    "Publish": {
        "name": "Name in the registry, in reverse-DNS form, such as io.github.ada/profiles.",
        "author": "Author of the server.",
        "license": "Licence of the server, such as MIT.",
        "repository": "URL of the source code.",
        "bundle": "Download URL of the bundle.",
    },
    "Jwt": {
        "algorithms": "Accepted signature algorithms, such as RS256.",
        "secret_env": "Name of the environment variable with the secret that signs the tokens.",
        "jwks_file": "File in the server folder with the public keys (JWKS) that verify tokens.",
        "jwks_url": "URL of the public keys (JWKS) that verify tokens.",
        "issuer": "Issuer that a token must name.",
        "audience": "Accepted audiences of a token. By default the server's own URL.",
        "leeway_s": "Accepted difference between the clocks of the issuer and the server, in seconds.",
    },
    "Needs": {
        "requires_jwt": "If true, calls of the tool need a token.",
        "scopes": "Scopes that the token must have.",
    },
    "Command": {
        "stage": "First part of the tool's name, before the hyphen.",
        "command": "Second part of the tool's name, after the hyphen.",
        "run": "Program and its arguments. Each text may contain parameters, such as {file}.",
        "title": "Name that people see.",
        "description": "Description of the tool, for models.",
        "parameters": "JSON Schema of the tool's arguments.",
        "produces": "Files that the program writes.",
        "folder": "Working folder of the program, relative to the server folder.",
        "environment": "Environment variables that the program receives besides PATH and similar ones.",
        "requires_env": "Environment variables that must be set. Otherwise the tool is not offered.",
        "timeout_ms": "Time limit of a call, in milliseconds.",
        "progress": "Format of the progress that the program prints.",
        "annotations": "Hints for clients, such as readOnlyHint.",
        "requires_jwt": "If true, calls of the tool need a token.",
        "scopes": "Scopes that the token must have.",
        "task": "`optional`: a client may run a call as a task. `required`: each call must be a task.",
        "resume": "If true and the machine of a job stops, the job runs again on another machine.",
    },
    "Mode": {"tools": "Names of the tools in the mode.", "description": "Purpose of the mode."},
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
    from mcpdesk.features.program_tools.command_tools import Command

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
    settings = {each.name: _setting(each) for each in SETTINGS if each.folder is not FolderUse.NOT}
    members["settings"] |= {"properties": settings, "additionalProperties": False}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mcp.json of mcpdesk"}
    return {**head, **root, "$defs": definitions}


def _setting(setting: Setting) -> dict[str, Any]:
    schema = {"description": setting.help, **KINDS[setting.kind]}
    if setting.kind is SettingKind.INTEGER:
        schema |= {"minimum": setting.least, "maximum": setting.most}
    if setting.folder is FolderUse.TIGHTEN:
        schema["items"] = {"type": "string", "pattern": r"^[^\s,=]+=(ask|deny)$"}
    if setting.pattern and setting.kind is SettingKind.TEXT:
        schema["pattern"] = f"^(?:{setting.pattern})$"
    return schema


def text() -> str:
    """The text of the file."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
