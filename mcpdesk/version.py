"""Version of the package. It is in a separate module, so that reading the version imports nothing else."""

from __future__ import annotations

__version__ = "0.2.0"
