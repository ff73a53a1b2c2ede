"""Names a model API accepts in place of those a server chose, and the way back."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

_DIGEST = 8
"""Characters that keep two shortened names apart."""


class Names:
    """A legal name for each original. Legal ones stay as they are; no two become one."""

    def __init__(
        self,
        originals: Iterable[str],
        pattern: re.Pattern[str] | None,
        longest: int = 64,
        empty: str = "tool",
    ) -> None:
        """`pattern` is what a name has to match as a whole, None for anything; `empty` stands for a name of
        which nothing is left."""
        every = list(dict.fromkeys(originals))
        self._legal: dict[str, str] = {}
        self._original: dict[str, str] = {}
        for name in every:
            if pattern is None or pattern.fullmatch(name):
                self._put(name, name)
        plain = {name: _plain(name, pattern, empty) for name in every if name not in self._legal}
        wanted = Counter(plain.values())
        for name, short in plain.items():
            is_shared = short in self._original or wanted[short] > 1
            self._put(name, _marked(short, name, longest) if is_shared or len(short) > longest else short)

    def legal(self, original: str) -> str:
        """What the API is told. Raises: KeyError for a name that was not there."""
        return self._legal[original]

    def original(self, legal: str) -> str:
        """What the server is told. Raises: KeyError for a name that was not there."""
        return self._original[legal]

    @property
    def changed(self) -> dict[str, str]:
        """The originals that had to be changed, with what they are called instead."""
        return {original: legal for original, legal in self._legal.items() if original != legal}

    def _put(self, original: str, legal: str) -> None:
        self._legal[original] = legal
        self._original[legal] = original


def _plain(name: str, pattern: re.Pattern[str] | None, empty: str) -> str:
    """The name in letters every API knows; accents go, everything else becomes `_`."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    fit = "".join(each if pattern is None or pattern.fullmatch(each) else "_" for each in bare)
    return re.sub(r"_{2,}", "_", fit).strip("_") or empty


def _marked(short: str, name: str, longest: int) -> str:
    """The name with a mark that stands for its original, so that it is the same every time."""
    mark = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=_DIGEST // 2).hexdigest()
    return f"{short[: longest - _DIGEST - 1]}_{mark}"
