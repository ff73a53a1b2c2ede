"""Plain facts about a core: `/health`, `/status` and the page at `/`."""

from __future__ import annotations

from aiohttp import web

from mcpdesk.protocol import codec
from mcpdesk.recorder.record import CaptureHealth
from mcpdesk.transports.base import Site
from mcpdesk.transports.http.answers import json_answer
from mcpdesk.version import __version__


def health(site: Site) -> web.Response:
    """That it lives."""
    return json_answer(200, b'{"status":"ok"}')


def status(site: Site) -> web.Response:
    """Counts per server and in total, uptime, and whether a key or a token is asked for."""
    servers = [endpoint.facts() for endpoint in site.endpoints()]
    totals = {kind: sum(each[kind] for each in servers) for kind in ("tools", "resources", "prompts")}
    body = {
        "status": "ok",
        "name": servers[0]["name"] if servers else "mcpdesk",
        "version": servers[0]["version"] if servers else __version__,
        "mcpdesk": __version__,
        **totals,
        "servers": servers,
        "capture": _capture(site.capture),
        "uptime_s": round(site.uptime_s, 1),
        "key_required": bool(site.rules.api_key),
        "token_required": bool(site.rules.api_key) or any(each["token_required"] for each in servers),
    }
    return json_answer(200, codec.encode(body))


def _capture(health: CaptureHealth) -> dict[str, str | int]:
    said: dict[str, str | int] = {"state": health.state, "missing_frames": health.missing}
    return {**said, "error": health.reason} if health.reason else said


def front(site: Site) -> web.Response:
    """A page of text that says what is here."""
    facts = "/health, /status and /metrics"
    if site.rules.enable_mcp:
        lines = ["mcpdesk serves MCP here. Endpoints, for JSON-RPC over POST:", ""]
        lines += [f"  /mcp/{endpoint.name}" for endpoint in site.endpoints()]
        lines += ["", f"Also: /v1/mcp for gateway clients; {facts}."]
    else:
        lines = [f"MCP is switched off here (enable_mcp). What there is: {facts}."]
    lines += ["A browser gets the dashboard here."]
    return web.Response(text="\n".join(lines) + "\n", content_type="text/plain")
