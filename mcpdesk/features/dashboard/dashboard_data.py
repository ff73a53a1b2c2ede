"""Path of the dashboard. It is in a separate module, because the entry is imported for every listener."""

from __future__ import annotations

PATH = "/dashboard"
"""Path of the dashboard. Browsers send its cookie only to this path."""
