"""Handlers for requests of the skills extension, except lists.

Source: io.modelcontextprotocol/skills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from mcpdesk.protocol import shaping
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.server.offer.listing import page_of, resource_wire, skill_wire
from mcpdesk.server.offer.server import Server

if TYPE_CHECKING:
    from mcpdesk.server.calls.running_call import Call

DIRECTORY = "inode/directory"


class SkillRequests:
    """Answers requests for the skills that one server publishes."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get(self, call: Call) -> JSONObject:
        """Return a GetSkillResult. Raises: RemoteProtocolError (-32602) if no skill has this URI."""
        uri = call.params["uri"]
        skill = self._server.skills.get(uri)
        if skill is None:
            raise invalid_params(f"No skill exists at {uri[:200]}")
        return {"skill": skill_wire(skill)}

    async def read_directory(self, call: Call) -> JSONObject:
        """Return the direct children of a directory in a skill.

        Raises: RemoteProtocolError (-32602) if the URI is not a directory, or if the cursor is invalid.
        """
        uri, cursor = call.params["uri"], call.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise invalid_params("cursor must be a string")
        prefix = f"{uri}/"
        children = dict[str, JSONObject]()
        for file_uri in (file.uri for skill in self._server.skills for file in skill.files):
            if file_uri.startswith(prefix):
                name, slash, _ = file_uri.removeprefix(prefix).partition("/")
                child = prefix + name
                children[child] = _directory(child, name) if slash else self._file(child, call)
        if not children or uri.endswith("/"):
            raise invalid_params(f"{uri[:200]} is not a directory of a skill")
        page, cursor_member = page_of(list(children), str, cursor, self._server.limits.page_size)
        return {"resources": [children[each] for each in page]} | cursor_member

    def _file(self, uri: str, call: Call) -> JSONObject:
        resource = self._server.resources.get(uri)
        wire = {"uri": uri, "name": uri} if resource is None else resource_wire(resource)
        return shaping.item("resources", wire, call.terms.revision)


def _directory(uri: str, name: str) -> JSONObject:
    return {"uri": uri, "name": unquote(name), "mimeType": DIRECTORY}
