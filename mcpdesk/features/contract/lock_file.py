"""Lock file of a server: the agreed definitions of its items, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.catalogue.contract import Definitions, contract_part

LOCK_VERSION = 1


class Lock(Struct, frozen=True):
    """Content of a lock file."""

    server: str
    """Name of the server. Empty in a file that an earlier version wrote."""
    definitions: Definitions


def lock_text(definitions: Definitions, server: str) -> str:
    """Return the text of a lock file, which does not depend on the order of the definitions."""
    content: dict[str, Any] = {"version": LOCK_VERSION} | ({"server": server} if server else {})
    for (kind, name), definition in definitions.items():
        content.setdefault(kind, {})[name] = contract_part(definition)
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(data: bytes) -> Lock:
    """Return the content of a lock file. Raises: ValueError with a reason that can follow the file name."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(content, dict) or content.get("version") != LOCK_VERSION:
        raise ValueError(f'is not a lock file: "version" must be {LOCK_VERSION}')
    definitions = dict[tuple[str, str], Mapping[str, Any]]()
    for kind, items in content.items():
        if kind == "version" or (kind == "server" and isinstance(items, str)):
            continue
        if not isinstance(items, dict) or not all(isinstance(each, dict) for each in items.values()):
            raise ValueError(f'is not a lock file: "{kind}" must be an object of definitions')
        definitions |= {(kind, name): definition for name, definition in items.items()}
    return Lock(content["server"] if isinstance(content.get("server"), str) else "", definitions)
