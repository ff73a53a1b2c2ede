"""Public names for authors of server folders.

Each name is resolved lazily at first use, so that importing this package costs almost nothing. The package is
imported even before the pump (`mcpdesk.transports.pump`), which must start quickly: `typing` alone would
double its startup time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from msgspec import Meta

    from mcpdesk.errors import ClientError
    from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
    from mcpdesk.protocol.content import audio, embedded, image, resource_link, text
    from mcpdesk.server.asks.question_wording import (
        Accepted,
        Cancelled,
        Declined,
        Elicited,
        Root,
        Sampled,
    )
    from mcpdesk.server.calls.context import Context
    from mcpdesk.server.calls.threads.sync_context import SyncContext
    from mcpdesk.server.offer.authoring import fail, header, message, prompt, refuse, resource, tool
    from mcpdesk.server.offer.server import RequestView
    from mcpdesk.server.offer.tool import ToolResult
    from mcpdesk.version import __version__

__all__ = [
    "Accepted",
    "Answer",
    "Cancelled",
    "ClientError",
    "Context",
    "Declined",
    "Elicited",
    "Meta",
    "Option",
    "Page",
    "Question",
    "QuestionState",
    "RequestView",
    "Root",
    "Sampled",
    "SyncContext",
    "ToolResult",
    "__version__",
    "audio",
    "embedded",
    "fail",
    "header",
    "image",
    "message",
    "prompt",
    "refuse",
    "resource",
    "resource_link",
    "text",
    "tool",
]

_NAMES_BY_MODULE = {
    "msgspec": ("Meta",),
    "mcpdesk.errors": ("ClientError",),
    "mcpdesk.inbox.question": ("Answer", "Option", "Page", "Question", "QuestionState"),
    "mcpdesk.protocol.content": ("audio", "embedded", "image", "resource_link", "text"),
    "mcpdesk.server.asks.question_wording": (
        "Accepted",
        "Cancelled",
        "Declined",
        "Elicited",
        "Root",
        "Sampled",
    ),
    "mcpdesk.server.offer.authoring": ("fail", "header", "message", "prompt", "refuse", "resource", "tool"),
    "mcpdesk.server.calls.context": ("Context", "RequestView"),
    "mcpdesk.server.calls.threads.sync_context": ("SyncContext",),
    "mcpdesk.server.offer.tool": ("ToolResult",),
    "mcpdesk.version": ("__version__",),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
