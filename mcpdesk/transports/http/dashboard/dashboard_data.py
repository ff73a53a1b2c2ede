"""Names and types that the dashboard shares with the core that provides its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

PATH = "/dashboard"
"""Path of the dashboard, and the only path its cookie is sent to."""
OPERATOR_HEADER = "X-Operator-Key"
"""Header with the operator's credential, for programs."""
Verdict: TypeAlias = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON object of the answer to an action."""
