"""Skills that a server publishes, and verification of their files against the listed digests.

A file is verified when it is read, and never read in advance. A digest proves that a file is the one in the
list, not that the file can be trusted. Source: io.modelcontextprotocol/skills, integrity and verification.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from mcpdesk.client.negotiation import Agreement
from mcpdesk.errors import InvalidAnswer, RpcError
from mcpdesk.protocol.catalogue.skill_entries import (
    DYNAMIC,
    EXTENSION,
    MAIN,
    content_fault,
    entry_fault,
    fields_fault,
)
from mcpdesk.protocol.jsonrpc import JSONObject


class PublishedSkills:
    """Skills of one server. Once a skill was listed or requested, every read of its files is verified."""

    def __init__(
        self,
        agreement: Callable[[], Awaitable[Agreement]],
        list_all: Callable[[str, str, list[str] | None], Awaitable[list[JSONObject]]],
        result: Callable[[str, JSONObject], Awaitable[JSONObject]],
    ) -> None:
        """The arguments are `discover_server`, `list_all` and `result` of a `ServerConnection`."""
        self._agreement, self._list_all, self._result = agreement, list_all, result
        self._entries: dict[str, JSONObject] = {}
        """Valid entries by URI."""

    async def is_offered(self) -> bool:
        """Return True if the server supports the extension. Raises: CallError."""
        extensions = (await self._agreement()).capabilities.get("extensions")
        return isinstance(extensions, dict) and EXTENSION in extensions

    async def listed(self, faults: list[str] | None = None) -> list[JSONObject]:
        """Return the entries of `skills/list`. Empty for a server without the extension.

        If `faults` is given, invalid entries are omitted, and their faults are added to `faults`.

        Raises: CallError.
        """
        if not await self.is_offered():
            return []
        entries = await self._list_all("skills/list", "skills", faults)
        self._entries |= {entry["uri"]: entry for entry in entries}
        return entries

    async def entry(self, uri: str) -> JSONObject:
        """Return the entry of the skill whose SKILL.md has this URI. The skill need not be listed.

        Raises: RpcError if the server does not know the skill; InvalidAnswer for an invalid entry.
        """
        entry: Any = (await self._result("skills/get", {"uri": uri})).get("skill")
        fault = entry_fault(entry) if isinstance(entry, dict) else "the result has no skill"
        if not fault and entry["uri"] != uri:
            fault = f"the entry is for {entry['uri'][:200]}"
        if fault:
            raise InvalidAnswer(f"skills/get: {fault}")
        valid_entry: JSONObject = entry
        self._entries[uri] = valid_entry
        return valid_entry

    async def verify(self, uri: str, result: JSONObject) -> None:
        """Verify the content of a file against the entry of its skill.

        If they differ, fetch the entry again and compare once more. Raises: InvalidAnswer if they still
        differ.
        """
        if not self._fault(uri, result):
            return
        for entry in self._skills_containing(uri):
            with suppress(RpcError, InvalidAnswer):
                await self.entry(entry["uri"])
        if fault := self._fault(uri, result):
            raise InvalidAnswer(f"{uri[:200]} does not match its skill: {fault}")

    def _skills_containing(self, uri: str) -> list[JSONObject]:
        """Return the entries of all skills that contain a file. Skills may be nested."""
        entries = self._entries.items()
        return [entry for main_uri, entry in entries if uri.startswith(main_uri.removesuffix("SKILL.md"))]

    def _fault(self, uri: str, result: JSONObject) -> str:
        return next((text for text in self._faults(uri, result) if text), "")

    def _faults(self, uri: str, result: JSONObject) -> Iterator[str]:
        """Yield the fault of a file for each skill that contains it, or an empty string if it matches."""
        for entry in self._skills_containing(uri):
            data = _content(result)
            if data is None:
                yield "it is not one text or one binary file"
            elif entry["resources"] != DYNAMIC:
                listed_file = next((file for file in entry["resources"] if file["uri"] == uri), None)
                if listed_file is None:
                    yield f"the skill {entry['uri'].removesuffix(MAIN)} does not list it among its files"
                else:
                    frontmatter = entry["frontmatter"] if uri == entry["uri"] else None
                    yield content_fault(data, listed_file, frontmatter)
            elif uri == entry["uri"]:
                yield fields_fault(data, entry["frontmatter"])


def _content(result: JSONObject) -> bytes | None:
    """Return the bytes of the file in a `resources/read` result. None unless it has exactly one file."""
    contents: list[Any] = result.get("contents", [])
    if len(contents) != 1:
        return None
    text, blob = contents[0].get("text"), contents[0].get("blob")
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(blob, validate=True) if isinstance(blob, str) else None
    except binascii.Error:
        return None
