"""Connections to any server, in this process or in another.

Use `connect` on an event loop, and `blocking` in code without one.
"""

from __future__ import annotations

from mcpdesk.connect.blocks import Blocking, blocking
from mcpdesk.connect.connecting import connect

__all__ = ["Blocking", "blocking", "connect"]
