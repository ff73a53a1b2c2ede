"""Published descriptions of a server: its card, catalog entries, `server.json` and a bundle's manifest.

Source: SEP-2127 and docs/discovery.md of ext-server-card; server.json 2025-12-11 of the registry; MCPB
manifest 0.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import SERVED_NAMES

PUBLIC_NAME = r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+"
"""Pattern of a public name: reverse DNS, a slash, and a name."""
MAX_NAME_LENGTH = 200
MAX_TEXT_LENGTH = 100
"""Maximum characters of a title or a description in a card and in `server.json`."""
CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
ENTRY_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
BUNDLE_SCHEMA = (
    "https://raw.githubusercontent.com/modelcontextprotocol/mcpb/main/schemas/mcpb-manifest-v0.4.schema.json"
)
CARD_TYPE = "application/mcp-server-card+json"
LOCAL = "localhost"
"""Namespace of a server without a public name, on a host without a domain."""
ICON_TYPES = frozenset({"image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"})
MAX_ICON_LENGTH = 255


class Publication(Struct, frozen=True):
    """Description of one server by its author."""

    name: str
    version: str
    public_name: str = ""
    """Name in reverse-DNS form, or "" if the author gives none."""
    title: str = ""
    description: str = ""
    website_url: str = ""
    repository: str = ""
    icons: tuple[Mapping[str, Any], ...] = ()


def server_card(
    server: Publication, host: str, url: str, headers: Iterable[tuple[str, str]] = ()
) -> JSONObject:
    """Return the card of a server at a URL.

    `headers` has the name and purpose of each secret header that the server needs.
    """
    secret_headers = [
        {"name": name, "description": purpose, "isRequired": True, "isSecret": True}
        for name, purpose in headers
    ]
    remote: JSONObject = {
        "type": "streamable-http",
        "url": url,
        "headers": secret_headers,
        "supportedProtocolVersions": list(SERVED_NAMES),
    }
    icons = [dict(each) for each in server.icons]
    card = {
        "$schema": CARD_SCHEMA,
        **_shared_members(server, host),
        "icons": icons,
        "remotes": [_without_empty_members(remote)],
    }
    return _without_empty_members(card)


def catalog_entry(server: Publication, host: str, url: str) -> JSONObject:
    """Return the catalog entry for the card at a URL."""
    namespace, _, name = _public_name(server, host).partition("/")
    publisher = ".".join(reversed(namespace.split(".")))
    return {
        "identifier": f"urn:air:{publisher}:{name}",
        "displayName": server.title or server.name,
        "type": CARD_TYPE,
        "url": url,
    }


def registry_entry(
    server: Publication, bundle_url: str, digest: str, variables: Iterable[tuple[str, str]]
) -> JSONObject:
    """Return `server.json` for a server that is published as a bundle.

    `digest` is the hexadecimal SHA-256 of the bundle. `variables` has the name and purpose of each
    environment variable that the server needs.
    """
    package: JSONObject = {
        "registryType": "mcpb",
        "identifier": bundle_url,
        "fileSha256": digest,
        "transport": {"type": "stdio"},
        "environmentVariables": [
            {"name": name, "description": purpose, "isSecret": True} for name, purpose in variables
        ],
    }
    icons = [dict(each) for each in server.icons if _is_public_icon(each)]
    entry = {
        "$schema": ENTRY_SCHEMA,
        **_shared_members(server, ""),
        "icons": icons,
        "packages": [_without_empty_members(package)],
    }
    return _without_empty_members(entry)


def bundle_manifest(
    server: Publication,
    author: str,
    license: str,
    tools: Iterable[tuple[str, str]],
    has_prompts: bool,
    variables: Iterable[tuple[str, str]],
    server_member: JSONObject,
) -> JSONObject:
    """Return the `manifest.json` of a bundle.

    `tools` has the name and description of each tool. `server_member` is the member `server` of the manifest,
    without the environment variables.
    """
    named_variables = list(variables)
    config: JSONObject = server_member["mcp_config"]
    if named_variables:
        config = config | {"env": {name: f"${{user_config.{name.lower()}}}" for name, _ in named_variables}}
    repository = {"type": "git", "url": server.repository} if server.repository else {}
    return _without_empty_members(
        {
            "$schema": BUNDLE_SCHEMA,
            "manifest_version": "0.4",
            "name": server.name,
            "display_name": server.title,
            "version": server.version,
            "description": _shortened(server.description or default_description(server)),
            "long_description": server.description if len(server.description) > MAX_TEXT_LENGTH else "",
            "author": {"name": author},
            "repository": repository,
            "homepage": _web_url(server.website_url),
            "server": server_member | {"mcp_config": config},
            "tools": [
                _without_empty_members({"name": name, "description": description})
                for name, description in tools
            ],
            "prompts_generated": has_prompts,
            "license": license,
            "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": ">=3.11"}},
            "user_config": {
                name.lower(): {
                    "type": "string",
                    "title": name,
                    "description": purpose,
                    "sensitive": True,
                }
                for name, purpose in named_variables
            },
        }
    )


def download_url(server: Publication, file: str) -> str:
    """Return the URL of a file in a release on GitHub or GitLab, or "" for other repositories."""
    parts = urlsplit(server.repository.rstrip("/").removesuffix(".git"))
    download_paths = {"github.com": "/releases/download/v{}", "gitlab.com": "/-/releases/v{}/downloads"}
    if parts.hostname not in download_paths or parts.path.count("/") < 2:
        return ""
    return (
        f"https://{parts.hostname}{parts.path}{download_paths[parts.hostname].format(server.version)}/{file}"
    )


def default_description(server: Publication) -> str:
    """Return the default description of a server."""
    return f"The MCP server {server.title or server.name}"


def _shared_members(server: Publication, host: str) -> JSONObject:
    """Return the members that a card and `server.json` share."""
    source = (urlsplit(server.repository).hostname or "").removeprefix("www.").partition(".")[0]
    return {
        "name": _public_name(server, host),
        "title": _shortened(server.title),
        "description": _shortened(server.description or default_description(server)),
        "version": server.version,
        "websiteUrl": _web_url(server.website_url),
        "repository": {"url": server.repository, "source": source} if server.repository else {},
    }


def _public_name(server: Publication, host: str) -> str:
    """Return the public name that the author gives, or else one derived from the host."""
    if server.public_name:
        return server.public_name
    is_domain = re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*", host) is not None
    namespace = ".".join(reversed(host.split("."))) if is_domain else LOCAL
    return f"{namespace}/{server.name}"


def _is_public_icon(icon: Mapping[str, Any]) -> bool:
    source = str(icon.get("src", ""))
    return (
        source.startswith("https://")
        and len(source) <= MAX_ICON_LENGTH
        and icon.get("mimeType", "image/png") in ICON_TYPES
        and all(re.fullmatch(r"\d+x\d+|any", each) for each in icon.get("sizes", ()))
    )


def _web_url(url: str) -> str:
    return url if re.fullmatch(r"https?://[^\s]+", url) else ""


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= MAX_TEXT_LENGTH else f"{one_line[: MAX_TEXT_LENGTH - 1].rstrip()}…"


def _without_empty_members(document: JSONObject) -> JSONObject:
    return {key: value for key, value in document.items() if value not in ("", [], {}, False)}
