"""Names and types that the dashboard shares with the core that provides its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

PATH = "/dashboard"
"""Path of the dashboard. Browsers send its cookie only to this path."""
Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object that answer an action."""
