"""What libraries name, and a client that waits for its first answer does not need.

They import modules of the standard library on behalf of few programs: a core behind pipes encrypts nothing.
While the libraries are imported here, stand-ins take the place of those modules; who uses one gets the module
itself, imported then.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

LATE = ("ssl", "asyncio.sslproto", "ipaddress", "textwrap", "tokenize")
"""Named by asyncio, `urllib.parse`, `traceback` and `inspect`: a sixth of their import."""


class _StandIn(ModuleType):
    """Has whatever the module of its name has."""

    def __getattr__(self, name: str) -> Any:
        _leave(self)
        return getattr(import_module(self.__name__), name)


def import_libraries() -> None:
    """Import what a core stands on with stand-ins. An `import` of theirs gets the modules from then on."""
    stand_ins = {name: _StandIn(name) for name in LATE if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        import asyncio
        import pathlib  # noqa: F401

        import msgspec  # noqa: F401
    finally:
        for each in stand_ins.values():
            _leave(each)
    if "asyncio.sslproto" in stand_ins:
        # Imported as a part of asyncio, it would be an attribute of it.
        vars(asyncio).setdefault("sslproto", stand_ins["asyncio.sslproto"])


def _leave(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
