"""Regular expressions that are compiled when they are first used.

Compiling takes a tenth of a millisecond to two milliseconds. A program imports many patterns at start, and
then uses few of them.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import AnyStr, Generic


class LatePattern(Generic[AnyStr]):
    """Regular expression. `regex` is its compiled form."""

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    @cached_property
    def regex(self) -> re.Pattern[AnyStr]:
        """Compiled expression."""
        return re.compile(self.pattern, self._flags)
