"""Key of the workbench that opens the app of the selected item, and other actions for apps."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from textual import work

from mcpdesk.feature import ScreenAction
from mcpdesk.features.apps.app_resource import app_uri
from mcpdesk.features.apps.open_apps import CloseApps, EndCall, OpenApp, json_text
from mcpdesk.features.apps.traffic_action import open_app_of_call, selects_call_with_app
from mcpdesk.tui.action import Action

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mcpdesk.link.link import Link
    from mcpdesk.link.values import CallOutcome, CoreView
    from mcpdesk.tui.screens.main_screen import MainScreen
    from mcpdesk.tui.screens.workbench import WorkbenchPane
    from mcpdesk.tui.workbench.drafts import Draft


@work
async def open_app(pane: WorkbenchPane) -> None:
    """Open the app of the selected item in the browser, with the latest call of a tool."""
    from mcpdesk.tui.forms.question_text import open_link

    draft = pane.draft
    if draft is None or not (uri := _app_uri_of(draft)):
        return
    tool = draft.item.name if draft.item.kind == "tool" else ""
    link, call, outcome = draft.link, draft.call, draft.outcome
    try:
        arguments, result = _call_texts(draft) if tool else ("", "")
        url = await asyncio.wrap_future(link.do(OpenApp(draft.server, uri, tool, arguments, result)))
    except ValueError as error:
        pane.notify(f"The app cannot be opened: {error}", severity="warning", markup=False)
        return
    if call is not None:
        call.outcome.add_done_callback(partial(_end_call, link, url))
    elif outcome is not None and arguments and not result:
        link.do(EndCall(url, "", _reason(outcome)))
    await open_link(pane.app, url, f"open {url} yourself")


@work
async def close_apps(main: MainScreen) -> None:
    """Close all open apps."""
    count = await asyncio.wrap_future(main.link.do(CloseApps()))
    main.notify(f"Closed {count} app{'s' * (count != 1)}.", markup=False)


def _call_texts(draft: Draft) -> tuple[str, str]:
    """Return the arguments and the result of the latest call as JSON. A missing value is "".

    Raises: ValueError if the JSON is nested too deeply.
    """
    if draft.call is None and draft.outcome is None:
        return "", ""
    arguments = json_text(draft.arguments if isinstance(draft.arguments, dict) else {})
    result = draft.outcome.result if draft.call is None and draft.outcome is not None else None
    return arguments, "" if result is None else json_text(result)


def _end_call(link: Link, url: str, future: Future[CallOutcome]) -> None:
    """Give the outcome of a call to the app. Called on any thread, after `future` is done."""
    outcome = future.result()
    try:
        result = "" if outcome.result is None else json_text(outcome.result)
    except ValueError as error:
        link.do(EndCall(url, "", str(error)))
    else:
        link.do(EndCall(url, result, "" if result else _reason(outcome)))


def _reason(outcome: CallOutcome) -> str:
    if outcome.cancelled:
        return "cancelled at the desk"
    return str((outcome.error or {}).get("message", "the call failed"))


def _app_uri_of(draft: Draft) -> str:
    return app_uri(draft.item.kind, draft.item.name, draft.item.definition)


def _applies(pane: WorkbenchPane) -> bool:
    return pane.draft is not None and bool(_app_uri_of(pane.draft))


def _is_available(view: CoreView) -> bool:
    """Return True unless the view shows a capture, which has no server."""
    return bool(view.servers)


# fmt: off
ACTIONS = (
    ScreenAction(
        Action("open_app", "o", "open the app",
            "Open the app of the tool or resource in the browser, in a sandbox, with the latest call.",
            scope="workbench", group="Workbench"),
        "workbench.page_result", "Open the app of this item in the browser",
        "mcp apps ui interface html widget sandbox page",
        open_app, _is_available, _applies,
    ),
    ScreenAction(
        Action("open_app_of_call", "", "open the app of the call",
            "Open the app of the called tool in the browser, with the recorded arguments and result.",
            footer=False, wide=True, scope="traffic", group="Traffic"),
        "traffic.back", "Open the app of this call in the browser",
        "mcp apps ui interface html widget sandbox page result",
        open_app_of_call, _is_available, selects_call_with_app,
    ),
    ScreenAction(
        Action("close_apps", "", "close all apps",
            "End all apps that are open in the browser.",
            footer=False, wide=True, scope="main", group="Server"),
        "main.servers", "Close all apps in the browser",
        "mcp apps ui end stop",
        close_apps, _is_available,
    ),
)
# fmt: on
