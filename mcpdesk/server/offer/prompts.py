"""Prompts: their definition, and conversion of their results to messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import content
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.server.offer.registry import Item
from mcpdesk.server.offer.resources import Completer

Renderer = Callable[[dict[str, str], Any], Awaitable[Any]]
"""Function that takes arguments and a context. It returns a text (one user message) or a list.

The list contains texts and message objects.
"""
ROLES = ("user", "assistant")


class PromptArgument(Struct, frozen=True):
    """Argument of a prompt. Its values are texts."""

    name: str
    description: str = ""
    title: str = ""
    required: bool = False


class Prompt(Item, frozen=True):
    name: str
    renderer: Renderer
    arguments: tuple[PromptArgument, ...] = ()
    completers: Mapping[str, Completer] = field(default_factory=dict)
    """Functions that suggest values, by name of the argument."""


def messages_of(name: str, output: Any) -> list[JSONObject]:
    """Convert the result of a prompt to message objects. A text becomes a user message.

    Raises: ProtocolError (-32603) with the number of an invalid message.
    """
    messages = [output] if isinstance(output, str | dict) else output
    if not isinstance(messages, list | tuple):
        raise _invalid_result(name, f"expected a text or a list of messages, not {type(output).__name__}")
    return [_message(name, number, each) for number, each in enumerate(messages, 1)]


def _message(name: str, number: int, message_or_text: Any) -> JSONObject:
    """Return one message of a prompt as an object. Raises: ProtocolError if it is invalid."""
    message = (
        {"role": "user", "content": message_or_text} if isinstance(message_or_text, str) else message_or_text
    )
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise _invalid_result(name, f"message {number} needs a role: {' or '.join(ROLES)}")
    body = message.get("content")
    block = content.text(body) if isinstance(body, str) else body
    if not content.is_block(block):
        raise _invalid_result(name, f"the content of message {number} is not a content block")
    try:
        content.check_block(block)
    except ValueError as error:
        raise _invalid_result(name, f"the content of message {number}: {error}") from None
    return {"role": message["role"], "content": block}


def _invalid_result(name: str, reason: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INTERNAL_ERROR, f"Prompt {name} returned an invalid message: {reason}")
