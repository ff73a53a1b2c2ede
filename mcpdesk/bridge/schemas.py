"""Tools of a server as a model API wants them told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from mcpdesk.bridge.dialect import ModelSchema
from mcpdesk.bridge.model_api import ModelApi
from mcpdesk.bridge.names import Names


class ToolSchema:
    """One tool for one API. `definition` is the tool as `tools/list` has it."""

    def __init__(self, definition: Mapping[str, Any], api: ModelApi, name: str) -> None:
        self.original = str(definition["name"])
        """What the server calls it."""
        self.name = name
        """What the model calls it."""
        arguments = partial(Names, pattern=api.argument_name, longest=api.longest_name, empty="argument")
        shaped = ModelSchema(definition.get("inputSchema") or {}, arguments)
        self.arguments = shaped.names
        self.faulty = shaped.faulty
        """Arguments and keywords whose description is no JSON Schema, and was left out."""
        said = str(definition.get("description") or definition.get("title") or "").strip()
        self.description = api.shortened(said, shaped.hint)
        self.is_cut = not self.description.startswith(said)
        """Whether the API does not take all of the description."""
        self.schema = api.shape(name, self.description, shaped.schema)
        """What goes into the `tools` of a request."""

    def for_server(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a model under the names the server knows; unknown ones stay as they are."""
        back = {legal: original for original, legal in self.arguments.changed.items()}
        return {back.get(name, name): value for name, value in arguments.items()}


class ToolSchemas(list[dict[str, Any]]):
    """Schemas, ready to be a request's `tools`. `names` maps what the model calls a tool to the server's name
    for it; `tools` are the schemas with their arguments' names."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]], api: ModelApi) -> None:
        found = [each for each in definitions if is_for_model(each)]
        legal = Names([str(each["name"]) for each in found], api.tool_name, api.longest_name)
        self.api = api
        self.tools = [ToolSchema(each, api, legal.legal(str(each["name"]))) for each in found]
        super().__init__(tool.schema for tool in self.tools)

    @property
    def names(self) -> dict[str, str]:
        """The model's name of each tool -> the server's."""
        return {tool.name: tool.original for tool in self.tools}

    @property
    def remarks(self) -> list[str]:
        """What differs from what the server says, one sentence each."""
        found = [
            f"{tool.original!r} is called {tool.name!r}" for tool in self.tools if tool.name != tool.original
        ]
        for tool in self.tools:
            for original, legal in tool.arguments.changed.items():
                found.append(f"{tool.original}: the argument {original!r} is called {legal!r}")
            found += [f"{tool.original}: what it says of {each!r} is no JSON Schema" for each in tool.faulty]
            if tool.is_cut:
                found.append(
                    f"{tool.original}: the description was cut to {len(tool.description)} characters"
                )
        most = self.api.most_tools
        if most is not None and len(self) > most:
            found.append(f"{self.api.name} takes at most {most} tools a request, these are {len(self)}")
        return found


def is_for_model(definition: Mapping[str, Any]) -> bool:
    """Whether a model may see a tool: some are for the interface a server brings along. Source: WIRE 9."""
    meta = definition.get("_meta")
    interface = meta.get("ui") if isinstance(meta, Mapping) else None
    visibility = interface.get("visibility") if isinstance(interface, Mapping) else None
    return not isinstance(visibility, list) or "model" in visibility
