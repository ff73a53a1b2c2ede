"""Plugin for pytest: the entry point, which loads the plugins of features."""

from __future__ import annotations

from mcpdesk.features import features_with

pytest_plugins = [name for feature in features_with("pytest_plugins") for name in feature.pytest_plugins]
"""Names of modules that pytest imports as further plugins."""
