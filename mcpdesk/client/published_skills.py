"""The skills a server publishes, and whether what is read of them is what it listed.

Nothing is read ahead: a file is verified when somebody reads it. A digest tells that a file is the one that
was listed, not that it can be trusted. Source: io.modelcontextprotocol/skills, integrity and verification.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

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


class SkillServer(Protocol):
    """What is needed of a connection to a server."""

    async def introduced(self) -> Agreement:
        """Connect, and know what the server can."""

    async def list_all(self, method: str, key: str, faults: list[str] | None = None) -> list[JSONObject]:
        """The items of all pages of a list."""

    async def result(self, method: str, params: JSONObject | None = None) -> JSONObject:
        """The result of a request. Raises: RpcError for an error."""


class PublishedSkills:
    """Skills of one server. What was listed or asked for is verified from then on, whoever reads it."""

    def __init__(self, server: SkillServer) -> None:
        self._server = server
        self._entries: dict[str, JSONObject] = {}
        """By URI, each checked already."""

    async def is_offered(self) -> bool:
        """Whether the server has the extension. Raises: CallError."""
        extensions = (await self._server.introduced()).capabilities.get("extensions")
        return isinstance(extensions, dict) and EXTENSION in extensions

    async def listed(self, faults: list[str] | None = None) -> list[JSONObject]:
        """The entries of `skills/list`; none of a server without the extension. Raises: CallError.

        With `faults`, entries that cannot be relied on are left out; what is wrong with them is added to it.
        """
        if not await self.is_offered():
            return []
        entries = await self._server.list_all("skills/list", "skills", faults)
        self._entries |= {entry["uri"]: entry for entry in entries}
        return entries

    async def entry(self, uri: str) -> JSONObject:
        """The entry of the skill whose SKILL.md has that URI, be it listed or not.

        Raises: RpcError when the server has none; InvalidAnswer for an entry that cannot be relied on.
        """
        entry: Any = (await self._server.result("skills/get", {"uri": uri})).get("skill")
        fault = entry_fault(entry) if isinstance(entry, dict) else "the result has no skill"
        if not fault and entry["uri"] != uri:
            fault = f"the entry is that of {entry['uri'][:200]}"
        if fault:
            raise InvalidAnswer(f"skills/get: {fault}")
        known: JSONObject = entry
        self._entries[uri] = known
        return known

    async def verify(self, uri: str, result: JSONObject) -> None:
        """Raises: InvalidAnswer when what was read is not what its skill listed, nor what it lists now."""
        if not self._fault(uri, result):
            return
        for entry in self._around(uri):
            with suppress(RpcError, InvalidAnswer):
                await self.entry(entry["uri"])
        if fault := self._fault(uri, result):
            raise InvalidAnswer(f"{uri[:200]} is not what its skill promises: {fault}")

    def _around(self, uri: str) -> list[JSONObject]:
        """The entries of the skills a file lies in; more than one where skills lie in each other."""
        known = self._entries.items()
        return [entry for main, entry in known if uri.startswith(main.removesuffix("SKILL.md"))]

    def _fault(self, uri: str, result: JSONObject) -> str:
        return next((told for told in self._faults(uri, result) if told), "")

    def _faults(self, uri: str, result: JSONObject) -> Iterator[str]:
        for entry in self._around(uri):
            data = _content(result)
            if data is None:
                yield "it is not one text or one binary file"
            elif entry["resources"] != DYNAMIC:
                listed = next((each for each in entry["resources"] if each["uri"] == uri), None)
                if listed is None:
                    yield f"the skill {entry['uri'].removesuffix(MAIN)} does not list it among its files"
                else:
                    yield content_fault(data, listed, entry["frontmatter"] if uri == entry["uri"] else None)
            elif uri == entry["uri"]:
                yield fields_fault(data, entry["frontmatter"])


def _content(result: JSONObject) -> bytes | None:
    """The bytes of the file in the result of `resources/read`; None where it is not one file."""
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
