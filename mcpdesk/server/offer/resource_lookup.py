"""Search for resources and templates by URI, or by the path of a resource's file.

A path may be relative to the server folder (`resources/x.md`, `./resources/x.md`), absolute, or a `file:`
URI. It is only compared, as text, with the paths of registered resources. A path from a client is never
opened, so no file outside the folder can be read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from mcpdesk.protocol.catalogue.uri_template import match
from mcpdesk.server.offer.resources import Reader
from mcpdesk.server.offer.server import Server

LOCAL_HOSTS = ("", "localhost")
"""Hosts in a `file:` URI that name this machine."""


class FoundResource(NamedTuple):
    """Resource to read."""

    reader: Reader
    uri: str
    """URI in the list of resources. For a template, the URI that the client sent."""
    variables: dict[str, str]
    """Values of the template's variables in the URI. Empty without a template."""
    mime_type: str
    is_folder_code: bool


def find_resource(server: Server, uri: str) -> FoundResource | None:
    """Return the resource with a URI or a path, or None if no resource matches.

    An absolute path must start with the path of the server folder, with symbolic links resolved.
    """
    resource = server.resources.get(uri)
    if resource is None and (paths := _paths_of(uri)):
        resource = next((each for each in server.resources if _matches_path(each.path, paths, server)), None)
    if resource is not None:
        return FoundResource(resource.reader, resource.uri, {}, resource.mime_type, resource.is_folder_code)
    for template in server.templates:
        variables = match(template.uri_template, uri)
        if variables is not None:
            return FoundResource(template.reader, uri, variables, template.mime_type, template.is_folder_code)
    return None


def uris_at(text: str, paths: Mapping[str, str], server: Server) -> set[str]:
    """Return the URIs of removed resources that a client names by path. `paths` has the paths of removed
    resources by URI.
    """
    client_paths = _paths_of(text)
    return {uri for uri, path in paths.items() if client_paths and _matches_path(path, client_paths, server)}


def _matches_path(path: str, paths: set[str], server: Server) -> bool:
    """Return True if `path`, the path of a resource, is one of the paths. False for an empty path."""
    if not path:
        return False
    return path in paths or (server.folder is not None and f"{server.folder.as_posix()}/{path}" in paths)


def _paths_of(uri: str) -> set[str]:
    """Return the normalized paths that a client may mean, or an empty set if the URI is not a path."""
    scheme, colon, _ = uri.partition(":")
    if colon and scheme.lower() == "file":
        try:
            parts = urlsplit(uri)
        except ValueError:
            return set()
        if parts.netloc.lower() not in LOCAL_HOSTS or parts.query or parts.fragment:
            return set()
        paths = {unquote(parts.path)}
    elif not uri or (colon and "/" not in scheme):
        return set()
    else:
        paths = {uri, unquote(uri)}
    # A path that ends with a slash is a folder.
    files = (path for path in paths if path and not path.endswith(("/", "/.")))
    return {posixpath.normpath(path).replace("//", "/", 1) for path in files}
