"""What the model APIs accept as tools, as data: names, argument names, lengths and the shape of a tool."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from mcpdesk.errors import DeskUserError

ApiName: TypeAlias = Literal["openai", "anthropic"]
"""`openai`: chat completions. `anthropic`: messages."""
CLAUDE = frozenset({"anthropic", "claude", "haiku", "opus", "sonnet"})
"""Words in the names of Anthropic's models, as people shorten them."""


class ModelApi(Struct, frozen=True):
    """One API's rules."""

    name: str
    tool_name: re.Pattern[str]
    argument_name: re.Pattern[str] | None
    """What the arguments of a tool may be called; None: anything."""
    longest_name: int = 64
    longest_description: int | None = None
    """Characters; None: the API knows no limit."""
    most_tools: int | None = None
    """Tools one request may bring along."""

    def shape(self, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
        """A tool as a request to the API has it."""
        if self.name == "openai":
            function = {"name": name, "description": description, "parameters": schema}
            return {"type": "function", "function": function}
        return {"name": name, "description": description, "input_schema": schema}

    def shortened(self, description: str, hint: str = "") -> str:
        """A description with a line below it, cut at a word where the API takes no longer one.

        A line that would take half of what there is goes.
        """
        longest = self.longest_description
        below = f"\n{hint}" if hint and (longest is None or len(hint) < longest // 2) else ""
        if longest is not None and len(description) + len(below) > longest:
            head = description[: max(0, longest - len(below) - 1)]
            description = (head.rsplit(None, 1)[0] if " " in head[-80:] else head).rstrip() + "…"
        return f"{description}{below}".strip()


APIS: dict[str, ModelApi] = {
    "openai": ModelApi(
        "openai",
        tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        argument_name=None,
        longest_description=1024,
        most_tools=128,
    ),
    "anthropic": ModelApi(
        "anthropic",
        tool_name=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        argument_name=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
    ),
}
"""By name. Both refuse a whole request for one tool that breaks a rule."""


def api_of_model(model: str) -> ApiName:
    """The API of a model's maker: messages for Claude, whatever its full name is, else chat completions."""
    return "anthropic" if CLAUDE & set(re.findall("[a-z]+", model.lower())) else "openai"


def configured_api(target: object) -> ApiName:
    """The API for the setting `model` of a folder, or of this process for any other target.

    Raises: DeskUserError for a bad setting; ManifestError for an unusable manifest.
    """
    from mcpdesk.hosting.host_plan import effective_settings

    is_folder = isinstance(target, str | os.PathLike) and "://" not in str(target)
    folder = Path(target).expanduser() if isinstance(target, str | os.PathLike) and is_folder else None
    return api_of_model(effective_settings({}, os.environ, folder).settings.model)


def model_api(name: str) -> ModelApi:
    """The rules of the API of that name. Raises: DeskUserError when there is none."""
    if name not in APIS:
        raise DeskUserError(f"There is no model API {name!r}.", f"Known: {', '.join(APIS)}.")
    return APIS[name]
