"""Action of the traffic screen that opens the app of a recorded call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from textual import work

from mcpdesk.features.apps.app_resource import tool_app_uri
from mcpdesk.features.apps.open_apps import OpenApp, json_text

if TYPE_CHECKING:
    from mcpdesk.recorder.index.exchange import Exchange
    from mcpdesk.recorder.index.traffic_index import Index
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane


@work
async def open_app_of_call(pane: TrafficPane) -> None:
    """Open the app of the selected call in the browser, with its recorded arguments and result."""
    from mcpdesk.tui.forms.question_text import open_link

    number = pane.selected_exchange()
    if number is None or not (uri := _selected_app_uri(pane)):
        return
    await pane.fetch(number)
    try:
        call = pane.link.traffic.exchange(number)
        arguments, result = recorded_call(pane.link.traffic, call)
        intent = OpenApp(call.server, uri, call.name, json_text(arguments), json_text(result))
        url = await asyncio.wrap_future(pane.link.do(intent))
    except ValueError as error:
        pane.notify(f"The app cannot be opened: {error}", severity="warning", markup=False)
        return
    await open_link(pane.app, url, f"open {url} yourself")


def recorded_call(index: Index, call: Exchange) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments and the result of a recorded call. Raises: ValueError."""
    from mcpdesk.recorder.index.traffic_index import last_round
    from mcpdesk.recorder.readable_message import unmasked

    last_exchange = last_round(index, call)
    if last_exchange.request is None or last_exchange.response is None:
        raise ValueError("the call has no result")
    request = unmasked(index, last_exchange, last_exchange.request)
    response = unmasked(index, last_exchange, last_exchange.response)
    params = request.get("params") if isinstance(request, dict) else None
    arguments = params.get("arguments", {}) if isinstance(params, dict) else None
    result = response.get("result") if isinstance(response, dict) else None
    if not isinstance(arguments, dict) or not isinstance(result, dict):
        raise ValueError("the call has no result")
    return arguments, result


def selects_call_with_app(pane: TrafficPane) -> bool:
    """Return True if a call of a tool with an app is selected."""
    return bool(_selected_app_uri(pane))


def _selected_app_uri(pane: TrafficPane) -> str:
    """Return the URI of the app of the selected call, or "" if another exchange is selected."""
    number = pane.selected_exchange()
    if number is None:
        return ""
    call = pane.link.traffic.exchange(number)
    if call.method != "tools/call":
        return ""
    items = (each for each in pane.link.catalogue(call.server).items if each.kind == "tool")
    return next((tool_app_uri(each.definition) for each in items if each.name == call.name), "")
