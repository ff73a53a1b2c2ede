"""Compiled schemas of tools, made at the first call and kept as long as the tool is the same."""

from __future__ import annotations

from mcpdesk.server.schema import Validator, compile_schema
from mcpdesk.server.tool import Tool


class Validators:
    """The validators of one server's tools."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Tool, Validator, Validator | None]] = {}

    def of(self, tool: Tool) -> tuple[Validator, Validator | None]:
        """Input and output validators; the latter is None when no output schema is declared.

        Raises: SchemaError for a schema that does not compile.
        """
        kept = self._kept.get(tool.name)
        if kept is not None and kept[0] is tool:
            return kept[1], kept[2]
        check_input = compile_schema(tool.input_schema)
        check_output = None if tool.output_schema is None else compile_schema(tool.output_schema)
        self._kept[tool.name] = (tool, check_input, check_output)
        return check_input, check_output
