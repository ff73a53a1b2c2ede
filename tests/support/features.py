"""Features that this checkout has, for tests that use one besides their own subject."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from mcpdesk import features
from mcpdesk.feature_table import FEATURES

T = TypeVar("T")


def has_feature(name: str) -> bool:
    """Whether the folder of a feature exists."""
    return (Path(features.__file__).parent / name / "__init__.py").is_file()


def having(name: str, *values: T) -> tuple[T, ...]:
    """Values for a table of cases. Empty if the feature was deleted."""
    return values if has_feature(name) else ()


def needs_feature(name: str) -> pytest.MarkDecorator:
    """Mark for the tests of one feature that also use another one."""
    return pytest.mark.skipif(not has_feature(name), reason=f"the feature {name} was deleted")


needs_all_features = pytest.mark.skipif(
    not all(map(has_feature, FEATURES)), reason="documentation and stored screens show all features"
)
