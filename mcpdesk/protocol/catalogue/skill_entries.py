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
"""End of a skill's own URI."""
MAX_FILES = 512
"""Maximum number of files of a skill, including SKILL.md."""
MAX_BYTES = 16 << 20
"""Maximum bytes of all files of a skill."""
NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
NAMING = "1 to 64 small letters, digits and single hyphens between them"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
DYNAMIC = "dynamic"
"""Value of `resources`, instead of a list, for a skill whose files are generated and cannot be verified."""


def digest_of(data: bytes) -> str:
    """Return the digest of a file, in the format of entries."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def header_fault(name: str, fields: JSONObject) -> str:
    """Return the reason why a skill named `name` cannot have this front matter, or "" if it can."""
    if NAME.fullmatch(name) is None:
        return f"the name of a skill is {NAMING}, not {name[:80]!r}"
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
    if fault := header_fault(root.rpartition("/")[2], fields):
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
    listed = [each["uri"] for each in files]
    if len(set(listed)) < len(listed):
        return "it lists a file twice"
    if uri not in listed:
        return "it does not list its own SKILL.md"
    total = sum(each["size"] for each in files)
    return f"its files have {total} bytes together; the limit is {MAX_BYTES}" if total > MAX_BYTES else ""


def content_fault(data: bytes, listed: JSONObject, fields: JSONObject | None) -> str:
    """Return the difference between a file and its entry, or an empty string.

    `listed` is the file's item in `resources`. `fields` is the entry's front matter, or None if the file is
    not the SKILL.md.
    """
    if len(data) != listed["size"]:
        return f"it has {len(data)} bytes and not {listed['size']}"
    if (digest := digest_of(data)) != listed["digest"]:
        return f"its digest is {digest} and not {listed['digest']}"
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
            return f"its front matter says {_shown(key, front_matter)}, and its entry {_shown(key, fields)}"
    return ""


def _file_fault(listed: Any, root: str) -> str:
    if not isinstance(listed, dict) or not isinstance(uri := listed.get("uri"), str):
        return "a file of it has no uri"
    file_path = unquote(uri.removeprefix(f"{root}/"))
    if not uri.startswith(f"{root}/") or not {"", ".", ".."}.isdisjoint(re.split(r"[/\\]", file_path)):
        return f"{uri[:200]} is not in its folder {root}"
    if not isinstance(digest := listed.get("digest"), str) or DIGEST.fullmatch(digest) is None:
        return f"the digest of {uri[:200]} is not sha256: and 64 small hexadecimal digits"
    size = listed.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return f"the size of {uri[:200]} is not a number of bytes"
    return ""


def _is_same(one: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. 1 and 1.0 are equal, but 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _shown(key: str, fields: JSONObject) -> str:
    return f"{key}: {str(fields[key])[:80]!r}" if key in fields else f"nothing of {key}"
