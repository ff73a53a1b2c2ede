"""Serves the desk to browsers while a core runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpdesk.auth.http_origin import is_loopback
from mcpdesk.cli.serve import operator_key
from mcpdesk.features.browser_desk.desk_pages import BrowserDesk, BrowserDeskPlan, listening_socket
from mcpdesk.hosting.host_plan import rules_of
from mcpdesk.runtime.core_process import require_unix
from mcpdesk.settings import DEFAULT_WEB_ADDRESS
from mcpdesk.transports.clean_terminal import is_terminal

if TYPE_CHECKING:
    from mcpdesk.feature import ServedCore
    from mcpdesk.settings import Settings


def require_free_address(settings: Settings) -> None:
    """Check the configured address. Raises: DeskUserError."""
    if settings.web != DEFAULT_WEB_ADDRESS:  # with the default, another free port is used
        listening_socket(*_web_address(settings.web), may_move=False).close()


def _web_address(text: str) -> tuple[str, int]:
    """Return host and port of the setting `web`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


@contextmanager
def served_pages(core: ServedCore, theme: str | None) -> Iterator[list[str]]:
    """Serve the desk to browsers while the block runs. Yield messages with its address.

    Raises: DeskUserError if the extra is missing, or the address is not available.
    """
    settings = core.settings
    require_unix("The desk in a browser (`web`)", "the Unix sockets on which its screens attach")
    host, port = _web_address(settings.web)
    state_variable = {"MCPDESK_STATE_DIR": core.state_dir} if core.state_dir else {}
    theme_option = ["--theme", theme] if theme else []
    pages = BrowserDesk(
        BrowserDeskPlan(
            host,
            port,
            core.operator,
            [sys.executable, "-P", "-m", "mcpdesk", "attach", str(os.getpid()), *theme_option],
            {**core.environment, **state_variable},
            rules_of(settings, ""),
            may_move=settings.web == DEFAULT_WEB_ADDRESS,
        )
    )
    try:
        address = pages.start()
        lines = [f"the desk in a browser: {address}; sign in there with {operator_key(core.operator)}"]
        if is_terminal():
            word = core.operator.new_link_code()
            lines.append(f"this link signs in there once, within 10 minutes: {address}#sign-in={word}")
        if not is_loopback(host):
            lines.append("traffic between browsers and the desk is not encrypted: put a TLS proxy in front")
        yield lines
    finally:
        pages.close()
