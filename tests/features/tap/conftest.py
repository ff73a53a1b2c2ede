"""Tests of taps that also need the feature `holding`."""

from __future__ import annotations

from tests.support.features import has_feature

HOLDING = ["test_held_tap.py", "test_held_taps.py", "test_tap_door.py"]
collect_ignore = [] if has_feature("holding") else HOLDING
