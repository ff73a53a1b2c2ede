"""Patience of links to cores in other processes, which start slowly on a busy machine."""

from __future__ import annotations

from tests.link.conftest import patient_links as patient_links
