"""The roots of a client: the folders it names to servers that ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mcpdesk.protocol.jsonrpc import JSONObject


def folder_roots(folders: Iterable[Path]) -> list[JSONObject]:
    """Folders as roots."""
    return [{"uri": folder.absolute().as_uri(), "name": folder.name} for folder in folders]


class DeskRoots:
    """The roots of the desk: those a person chose.

    Until then a hosted folder hears of itself, and a server elsewhere of none: some serve the roots they hear
    of in place of what their command line says.
    """

    def __init__(self) -> None:
        self._chosen: tuple[str, ...] | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """Those that servers get that are not ours."""
        return self._chosen or ()

    def offered(self, folders: Iterable[Path] = ()) -> list[JSONObject]:
        """As `roots/list` has them; `folders` are named where none were chosen."""
        if self._chosen is None:
            return folder_roots(folders)
        return [{"uri": uri, "name": PurePosixPath(unquote(urlsplit(uri).path)).name} for uri in self._chosen]

    def choose(self, texts: Sequence[str]) -> None:
        """Name other folders from now on, by URI or path. Raises: ValueError naming what is none."""
        self._chosen = tuple(dict.fromkeys(root_uri(text.strip()) for text in texts if text.strip()))


def root_uri(text: str) -> str:
    """The `file://` URI of a folder that is named by one, or by its path. Raises: ValueError.

    Source: MCP client/roots.
    """
    if text.startswith(("/", "~")):
        text = Path(text).expanduser().as_uri()
    parts = urlsplit(text)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    if not is_file or parts.query or parts.fragment:
        raise ValueError(f"{text[:80]!r} is no folder: write file:///FOLDER, or its whole path.")
    if ".." in unquote(parts.path).split("/"):
        raise ValueError(f"{text[:80]!r} has `..` in it: write where it leads.")
    if not Path(unquote(parts.path)).is_dir():
        raise ValueError(f"There is no folder {unquote(parts.path)[:200]!r}.")
    return text
