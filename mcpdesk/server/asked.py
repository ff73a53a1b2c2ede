"""What a client said to a question, as values for the handler that asked. Source: WIRE 6.6, 6.7."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import JSONObject

Action = Literal["accept", "decline", "cancel"]


class Elicited(Struct, frozen=True):
    """The answer to a form or a link."""

    action: Action
    """For a link, `accept` says that the person agreed to open it, not what came of it."""
    content: Any = None
    """The filled form when accepted: a dict, or an instance of the class that was asked with."""
    id: str = ""
    """What the client knows a link by, where its revision has ids for them: see `complete_elicitation`."""

    @property
    def accepted(self) -> bool:
        """Whether the person agreed."""
        return self.action == "accept"


class Sampled(Struct, frozen=True):
    """A message the client's model wrote."""

    content: tuple[JSONObject, ...]
    """Content blocks as they came, `tool_use` included."""
    model: str
    role: str = "assistant"
    stop_reason: str = ""

    @property
    def text(self) -> str:
        """The texts of the message, put together."""
        return "".join(each["text"] for each in self.content if each.get("type") == "text")


class Root(Struct, frozen=True):
    """A place on the client's side that it lets servers know of."""

    uri: str
    name: str = ""


def read_sampled(result: Any) -> Sampled:
    """The message in a sampling result. Raises: ValueError when it is none."""
    if not isinstance(result, dict):
        raise ValueError("a sampling result is an object")
    content = result.get("content")
    blocks: list[Any] = content if isinstance(content, list) else [content]
    if not all(_is_block(block) for block in blocks):
        raise ValueError("a sampling result needs content")
    role, model = result.get("role"), result.get("model")
    if role not in ("assistant", "user") or not isinstance(model, str):
        raise ValueError("a sampling result needs a role and a model")
    reason = result.get("stopReason")
    return Sampled(tuple(blocks), model, role, reason if isinstance(reason, str) else "")


def read_roots(result: Any) -> list[Root]:
    """The roots in a result. Raises: ValueError when it has none in it."""
    listed = result.get("roots") if isinstance(result, dict) else None
    if not isinstance(listed, list) or not all(_is_root(each) for each in listed):
        raise ValueError("roots are a list of objects with a uri")
    return [Root(each["uri"], each.get("name") or "") for each in listed]


def _is_block(block: object) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _is_root(root: object) -> bool:
    if not isinstance(root, dict) or not isinstance(root.get("uri"), str):
        return False
    return isinstance(root.get("name", ""), str | None)
