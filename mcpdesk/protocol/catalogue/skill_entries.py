"""Entries of the skills extension: checks of an entry and of the files it lists.

Source: io.modelcontextprotocol/skills, stable page of ext-skills.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import unquote

from mcpdesk.errors import RegistrationError
from mcpdesk.protocol.catalogue.front_matter import verbatim_fields
from mcpdesk.protocol.jsonrpc import JSONObject

EXTENSION = "io.modelcontextprotocol/skills"
CAPABILITY: JSONObject = {EXTENSION: {"directoryRead": True}}
MAIN = "/SKILL.md"
"""End of the URI of every skill."""
MAX_FILES = 512
"""Maximum number of files of a skill, including SKILL.md."""
MAX_BYTES = 16 << 20
"""Maximum bytes of all files of a skill."""
NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
NAMING = "1 to 64 small letters, digits and single hyphens between them"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
DYNAMIC = "dynamic"
"""Value of `resources` instead of a list, for a skill whose files are generated and cannot be verified."""


def digest_of(data: bytes) -> str:
    """Return the digest of a file, in the format of entries."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def front_matter_fault(name: str, fields: JSONObject) -> str:
    """Return the reason why a skill named `name` cannot have this front matter, or "" if it can."""
    if NAME.fullmatch(name) is None:
        return f"the name of a skill must be {NAMING}, not {name[:80]!r}"
    for key in ("name", "description"):
        value = fields.get(key)
        if not isinstance(value, str) or not value.strip():
            return f"the front matter needs a {key}, a text"
    if fields["name"] != name:
        return f"the front matter says name: {fields['name'][:80]}, but its folder is called {name}"
    return ""


def entry_fault(entry: JSONObject) -> str:
    """Return the fault of an entry of `skills/list` or `skills/get`, or an empty string."""
    uri, fields = entry.get("uri"), entry.get("frontmatter")
    if not isinstance(uri, str) or not uri.endswith(MAIN):
        return f"its uri does not end in {MAIN}"
    if not isinstance(fields, dict):
        return "it has no frontmatter"
    root = uri.removesuffix(MAIN)
    if fault := front_matter_fault(root.rpartition("/")[2], fields):
        return fault
    files = entry.get("resources")
    if files == DYNAMIC:
        return ""
    if not isinstance(files, list):
        return f"its resources are neither a list nor {DYNAMIC!r}"
    if len(files) > MAX_FILES:
        return f"it has {len(files)} files; the limit is {MAX_FILES}"
    if fault := next((fault_text for each in files if (fault_text := _file_fault(each, root))), ""):
        return fault
    file_uris = [each["uri"] for each in files]
    if len(set(file_uris)) < len(file_uris):
        return "it lists a file twice"
    if uri not in file_uris:
        return "it does not list its own SKILL.md"
    total_bytes = sum(each["size"] for each in files)
    if total_bytes > MAX_BYTES:
        return f"its files have {total_bytes} bytes together; the limit is {MAX_BYTES}"
    return ""


def content_fault(data: bytes, file_entry: JSONObject, fields: JSONObject | None) -> str:
    """Return the difference between a file and its entry, or an empty string.

    `file_entry` is the file's item in `resources`. `fields` is the entry's front matter, or None if the file
    is not the SKILL.md.
    """
    if len(data) != file_entry["size"]:
        return f"it has {len(data)} bytes and not {file_entry['size']}"
    if (digest := digest_of(data)) != file_entry["digest"]:
        return f"its digest is {digest} and not {file_entry['digest']}"
    return "" if fields is None else fields_fault(data, fields)


def fields_fault(data: bytes, fields: JSONObject) -> str:
    """Return the difference between the front matter of a SKILL.md and its entry, or an empty string."""
    try:
        front_matter = verbatim_fields(data.decode(), "SKILL.md")
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except RegistrationError as error:
        return error.message
    for key in (*fields, *(each for each in front_matter if each not in fields)):
        if not _is_same(fields.get(key), front_matter.get(key)):
            own_text, entry_text = _member_text(key, front_matter), _member_text(key, fields)
            return f"its front matter says {own_text}, and its entry {entry_text}"
    return ""


def _file_fault(file_entry: Any, root: str) -> str:
    """Return the fault of one file in an entry, or an empty string."""
    if not isinstance(file_entry, dict) or not isinstance(uri := file_entry.get("uri"), str):
        return "one of its files has no uri"
    file_path = unquote(uri.removeprefix(f"{root}/"))
    if not uri.startswith(f"{root}/") or not {"", ".", ".."}.isdisjoint(re.split(r"[/\\]", file_path)):
        return f"{uri[:200]} is not in its folder {root}"
    if not isinstance(digest := file_entry.get("digest"), str) or DIGEST.fullmatch(digest) is None:
        return f"the digest of {uri[:200]} is not sha256: and 64 small hexadecimal digits"
    size = file_entry.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return f"the size of {uri[:200]} is not a number of bytes"
    return ""


def _is_same(value: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. 1 and 1.0 are equal, but 1 and true are not."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_is_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_is_same, value, other))
    return bool(value == other)


def _member_text(key: str, fields: JSONObject) -> str:
    return f"{key}: {str(fields[key])[:80]!r}" if key in fields else f"no {key}"
