"""Connections to any server, in this process or in another: `connect`, and `blocking` for code without an
event loop.
"""

from __future__ import annotations

from mcpdesk.connect.blocks import Blocking, blocking
from mcpdesk.connect.connecting import connect

__all__ = ["Blocking", "blocking", "connect"]
