"""Runs once for each request, before the handler. What it returns is the handler's second argument."""

from dataclasses import dataclass

from mcpdesk import RequestView


@dataclass
class Caller:
    """Who is asking, as far as the request tells."""

    request_id: str
    user_id: str


async def create_context(request: RequestView) -> Caller:
    """Over HTTP there are headers; over a pipe there is the environment instead."""
    return Caller(
        request_id=request.headers.get("x-request-id", ""),
        user_id=request.headers.get("x-user-id") or request.environment.get("USER", ""),
    )
