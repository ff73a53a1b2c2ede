"""Roots of a client: the folders that it reports to servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mcpdesk.protocol.jsonrpc import JSONObject


def folder_roots(folders: Iterable[Path]) -> list[JSONObject]:
    """Return folders in the form of roots."""
    return [{"uri": folder.absolute().as_uri(), "name": folder.name} for folder in folders]


class DeskRoots:
    """Roots of the desk, which a person can choose.

    Until a person has chosen roots, a hosted folder receives its own path as its root. Other servers receive
    no roots, because some servers use roots instead of their command-line arguments.
    """

    def __init__(self) -> None:
        self._chosen_uris: tuple[str, ...] | None = None

    @property
    def uris(self) -> tuple[str, ...]:
        """Chosen roots, which are sent to servers other than hosted folders."""
        return self._chosen_uris or ()

    def offered(self, folders: Iterable[Path] = ()) -> list[JSONObject]:
        """Return the roots in the form of `roots/list`: the chosen ones, or `folders` if none were chosen."""
        if self._chosen_uris is None:
            return folder_roots(folders)
        return [
            {"uri": uri, "name": PurePosixPath(unquote(urlsplit(uri).path)).name} for uri in self._chosen_uris
        ]

    def choose(self, texts: Sequence[str]) -> None:
        """Set the roots, as URIs or paths. Raises: ValueError with the text that is not a folder."""
        self._chosen_uris = tuple(dict.fromkeys(root_uri(text.strip()) for text in texts if text.strip()))


def root_uri(text: str) -> str:
    """Return the `file://` URI of a folder, given as such a URI or as a path. Raises: ValueError.

    Source: MCP client/roots.
    """
    if text.startswith(("/", "~")):
        text = Path(text).expanduser().as_uri()
    parts = urlsplit(text)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    if not is_file or parts.query or parts.fragment:
        raise ValueError(f"{text[:80]!r} is not a folder: write file:///FOLDER or an absolute path.")
    if ".." in unquote(parts.path).split("/"):
        raise ValueError(f"{text[:80]!r} contains `..`: write the resolved path.")
    if not Path(unquote(parts.path)).is_dir():
        raise ValueError(f"Folder {unquote(parts.path)[:200]!r} does not exist.")
    return text
