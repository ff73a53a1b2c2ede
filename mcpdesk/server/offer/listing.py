"""Items of a server as protocol objects. A list is encoded once for each revision and version of the
items.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import orjson

from mcpdesk.auth.principal import Principal
from mcpdesk.protocol import codec, shaping
from mcpdesk.protocol.catalogue.skill_entries import CAPABILITY as SKILLS_CAPABILITY
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import SERVED_NAMES, Revision
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Registry
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.skill_entry import SkillEntry
from mcpdesk.server.offer.tool import Tool

MAX_PAGES = 256
"""Maximum number of encoded pages that are cached. If another page is needed, all cached pages are
dropped.
"""
T = TypeVar("T")


class OfferListing:
    """Lists, capabilities and identity of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pages: dict[tuple[str, str, str | None, frozenset[str] | bool], tuple[int, bytes]] = {}
        self.identities: dict[str, JSONObject] = {}
        self._initialize_results: dict[str, tuple[tuple[object, ...], bytes]] = {}
        """Encoded result of `initialize` by revision, each with the versions of the items in it."""
        self._task_check_version = -1
        """Version of the tools for which `_has_task_tool` was computed."""
        self._has_task_tool = False
        self._tools_fingerprint = -1, 0
        """Version of the tools, and the fingerprint of their definitions in this version."""

    def clear_caches(self) -> None:
        """Clear all caches, because the identity of the server has changed."""
        self._pages.clear()
        self.identities.clear()
        self._initialize_results.clear()

    def implementation(self, revision: Revision) -> JSONObject:
        """Return the identity of the server in the format of a revision."""
        cached = self.identities.get(revision.name)
        if cached is None:
            cached = self.identities[revision.name] = self._identity(revision)
        return cached

    def is_offered(self, capability: str) -> bool:
        """Return True if the server offers a capability, even if some revisions have no name for it."""
        if capability == "completions":
            return any(each.completers for each in (*self._server.prompts, *self._server.templates))
        if capability == "tasks":
            return self._has_tasks()
        if capability == "skills":
            return len(self._server.skills) > 0
        return capability in _ALWAYS_OFFERED or (capability == "tools" and self._server.tools_enabled)

    def _identity(self, revision: Revision) -> JSONObject:
        server = self._server
        wire = {
            "name": server.name,
            "version": server.version,
            "title": server.title,
            "description": server.description,
            "websiteUrl": server.website_url,
            "icons": list(server.icons),
        }
        return shaping.implementation(_without_empty_members(wire, ("name", "version")), revision)

    def capabilities(self, revision: Revision) -> JSONObject:
        """Return the capability object of `initialize` and `server/discover`."""
        capabilities: JSONObject = {"logging": {}}
        if self._server.tools_enabled:
            capabilities["tools"] = {"listChanged": True}
        capabilities["resources"] = {"subscribe": True, "listChanged": True}
        capabilities["prompts"] = {"listChanged": True}
        if revision.has_completions and self.is_offered("completions"):
            capabilities["completions"] = {}
        if self._has_tasks():
            from mcpdesk.protocol import task_shapes

            if revision.has_core_tasks:
                capabilities["tasks"] = task_shapes.CORE_CAPABILITY
            elif revision.is_stateless:
                capabilities["extensions"] = task_shapes.EXTENSION_CAPABILITY
        if self.is_offered("skills"):
            capabilities["extensions"] = capabilities.get("extensions", {}) | SKILLS_CAPABILITY
        return capabilities

    def announces(self, kind: str) -> bool:
        """Return True if clients are notified of changes to this kind of list."""
        return kind != "tool" or self.is_offered("tools")

    def initialize_result(self, revision: Revision) -> bytes:
        """Return the encoded InitializeResult. It is built again after a change of its parts."""
        server = self._server
        registries = (server.tools, server.prompts, server.templates, server.skills)
        versions = tuple(each.version for each in registries)
        version_key = (versions, server.tools_enabled, server.instructions)
        cached = self._initialize_results.get(revision.name)
        if cached is not None and cached[0] == version_key:
            return cached[1]
        body: JSONObject = {
            "protocolVersion": revision.name,
            "capabilities": self.capabilities(revision),
            "serverInfo": self.implementation(revision),
        }
        encoded = codec.encode(body | self._instructions())
        self._initialize_results[revision.name] = version_key, encoded
        return encoded

    def discover_result(self, revision: Revision) -> JSONObject:
        """Return the DiscoverResult before it is adapted to the revision."""
        body: JSONObject = {
            "supportedVersions": list(SERVED_NAMES),
            "capabilities": self.capabilities(revision),
        }
        return body | self._instructions()

    def page(
        self, method: str, revision: Revision, cursor: str | None, caller: Principal | None = None
    ) -> bytes:
        """Return the encoded result of a list method.

        With a `caller`, the result contains only the items that the caller may use. Raises:
        RemoteProtocolError (-32602) for an invalid cursor.
        """
        registry = self._registry(method)
        scopes_key: frozenset[str] | bool = True  # all items
        if caller is not None:
            scopes_key = False if caller.claims is None else caller.scopes
        key = (method, revision.name, cursor, scopes_key)
        cached = self._pages.get(key)
        if cached is not None and cached[0] == registry.version:
            return cached[1]
        encoded = codec.encode(self._build_page(method, registry, revision, cursor, caller))
        if len(self._pages) >= MAX_PAGES:
            self._pages.clear()
        self._pages[key] = (registry.version, encoded)
        return encoded

    def usable(self, registry: Registry[Any], caller: Principal) -> list[Any]:
        """Return the items of a registry that a caller may use."""
        if not self._server.access.admits(caller):
            return []
        return [item for item in registry if not isinstance(item, Tool) or _may_call(item, caller)]

    def tools_fingerprint(self) -> int:
        """Return a fingerprint of all tool definitions. It does not depend on the tools' code."""
        tools = self._server.tools
        if self._tools_fingerprint[0] != tools.version:
            to_wire = WIRE["tools"]
            self._tools_fingerprint = tools.version, hash(codec.encode([to_wire(tool) for tool in tools]))
        return self._tools_fingerprint[1]

    def _has_tasks(self) -> bool:
        tools = self._server.tools
        if self._task_check_version != tools.version:
            self._task_check_version, self._has_task_tool = tools.version, any(tool.task for tool in tools)
        return self._has_task_tool and self._server.tools_enabled

    def _build_page(
        self,
        method: str,
        registry: Registry[Any],
        revision: Revision,
        cursor: str | None,
        caller: Principal | None,
    ) -> JSONObject:
        list_key = METHODS[method].list_key
        to_wire = WIRE[list_key]
        all_items = list(registry) if caller is None else self.usable(registry, caller)
        items, cursor_member = page_of(all_items, registry.key, cursor, self._server.limits.page_size)
        body: JSONObject = {list_key: [shaping.item(list_key, to_wire(item), revision) for item in items]}
        return shaping.result(method, body | cursor_member, revision, self.implementation(revision))

    def _registry(self, method: str) -> Registry[Any]:
        server = self._server
        table: dict[str, Registry[Any]] = {
            "tools/list": server.tools,
            "resources/list": server.resources,
            "resources/templates/list": server.templates,
            "prompts/list": server.prompts,
            "skills/list": server.skills,
        }
        return table[method]

    def _instructions(self) -> JSONObject:
        return {"instructions": self._server.instructions} if self._server.instructions else {}


_ALWAYS_OFFERED = frozenset({"logging", "resources", "prompts"})


def _may_call(tool: Tool, caller: Principal) -> bool:
    if not tool.requires_jwt:
        return True
    return caller.claims is not None and caller.scopes.issuperset(tool.scopes)


def tool_wire(tool: Tool) -> JSONObject:
    """Return a Tool object with all known fields."""
    wire: JSONObject = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
        "icons": list(tool.icons),
        "execution": {"taskSupport": tool.task} if tool.task else {},
        "_meta": tool.meta,
    }
    return _without_empty_members(wire, ("name", "inputSchema"))


def resource_wire(resource: Resource) -> JSONObject:
    """Return a Resource object with all known fields."""
    wire = {"uri": resource.uri, **_resource_fields(resource), "size": resource.size}
    required = ("uri", "name") if resource.size is None else ("uri", "name", "size")
    return _without_empty_members(wire, required)


def template_wire(template: ResourceTemplate) -> JSONObject:
    """Return a ResourceTemplate object with all known fields."""
    return _without_empty_members(
        {"uriTemplate": template.uri_template, **_resource_fields(template)}, ("uriTemplate", "name")
    )


def prompt_wire(prompt: Prompt) -> JSONObject:
    """Return a Prompt object with all known fields."""
    arguments = [
        _without_empty_members(
            {
                "name": each.name,
                "title": each.title,
                "description": each.description,
                "required": each.required,
            },
            ("name", "required"),
        )
        for each in prompt.arguments
    ]
    wire: JSONObject = {
        "name": prompt.name,
        "title": prompt.title,
        "description": prompt.description,
        "arguments": arguments,
        "icons": list(prompt.icons),
        "_meta": prompt.meta,
    }
    return _without_empty_members(wire, ("name",))


def skill_wire(skill: SkillEntry) -> JSONObject:
    """Return a Skill object of the skills extension."""
    files = [{"uri": each.uri, "digest": each.digest, "size": each.size} for each in skill.files]
    return {"uri": skill.uri, "frontmatter": skill.frontmatter, "resources": files}


WIRE: dict[str, Callable[[Any], JSONObject]] = {
    "tools": tool_wire,
    "resources": resource_wire,
    "resourceTemplates": template_wire,
    "prompts": prompt_wire,
    "skills": skill_wire,
}
"""Functions that create the objects of a list, by the name of the list in the result."""


def _resource_fields(item: Resource | ResourceTemplate) -> JSONObject:
    return {
        "name": item.name,
        "title": item.title,
        "description": item.description,
        "mimeType": item.mime_type,
        "annotations": item.annotations,
        "icons": list(item.icons),
        "_meta": item.meta,
    }


def _without_empty_members(wire: JSONObject, required: Iterable[str]) -> JSONObject:
    names = frozenset(required)
    return {key: value for key, value in wire.items() if value or key in names}


def page_of(
    items: list[T], key: Callable[[T], str], cursor: str | None, size: int
) -> tuple[list[T], JSONObject]:
    """Return a page of a list, and a member with the cursor of the next page, if there is one.

    Raises: RemoteProtocolError (-32602) for an invalid cursor.
    """
    start = _offset(cursor, [key(item) for item in items])
    end = start + size
    if end >= len(items):
        return items[start:], {}
    last_key, next_key = (key(each) for each in items[end - 1 : end + 1])
    return items[start:end], {"nextCursor": _cursor(end, last_key, next_key)}


def _cursor(offset: int, last_key: str, next_key: str) -> str:
    """Return a cursor with the end of a page and the keys of the items before and after it.

    The keys are needed because items may change between two requests.
    """
    return base64.urlsafe_b64encode(orjson.dumps([offset, last_key, next_key])).decode("ascii")


def _offset(cursor: str | None, keys: list[str]) -> int:
    """Return the index of the first item of the page at a cursor."""
    if cursor is None:
        return 0
    try:
        offset, last_key, next_key = orjson.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error):
        raise invalid_params("Unknown cursor: start again without one") from None
    has_keys = isinstance(last_key, str) and isinstance(next_key, str)
    if not isinstance(offset, int) or offset < 0 or not has_keys:
        raise invalid_params("Unknown cursor: start again without one")
    if last_key in keys:
        return keys.index(last_key) + 1
    if next_key in keys:
        return keys.index(next_key)
    # Both items were removed, so later items moved up. Listing an item twice is better than missing one.
    return min(max(offset - 1, 0), len(keys))
