"""Context of a request. `create_context` runs before each handler. Its result is the handler's second
argument.
"""

from dataclasses import dataclass

from mcpdesk import RequestView


@dataclass
class Caller:
    """User who sent the request, as far as the request has this information."""

    request_id: str
    user_id: str


async def create_context(request: RequestView) -> Caller:
    """Read the headers of a request over HTTP, or the environment of a client over stdio."""
    return Caller(
        request_id=request.headers.get("x-request-id", ""),
        user_id=request.headers.get("x-user-id") or request.environment.get("USER", ""),
    )
