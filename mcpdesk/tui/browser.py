"""Opens a link in the person's browser, where there is one that does not need the terminal."""

from __future__ import annotations

import webbrowser

from textual.app import App

from mcpdesk.inbox.question import host_of


async def open_link(app: App[None], link: str) -> None:
    """Open it, and say so; or say why it cannot be opened."""
    if not host_of(link):
        app.notify("Only http and https links are opened.", severity="error", markup=False)
    elif app.is_web:
        app.open_url(link)
    elif not _has_window():
        app.notify("No browser can be opened from here: y copies the link.", severity="warning", markup=False)
    else:
        app.run_worker(lambda: webbrowser.open(link), thread=True, group="browser")
        app.notify("The link is on its way to the browser.", markup=False)


def _has_window() -> bool:
    """Whether the browser opens a window of its own: others would take the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser
