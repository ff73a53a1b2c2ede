"""The resource or template that a client names: by its URI, or by the path of the file behind it.

A resource of a file is found by its path in the server folder as well: `resources/x.md`, `./resources/x.md`,
its absolute path, and that as a `file:` URI. Paths are compared as text with those of registered resources;
no path of a client is ever opened, so nothing outside of the folder can be reached.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from mcpdesk.protocol.catalogue.uri_template import match
from mcpdesk.server.offer.resources import Reader, Resource
from mcpdesk.server.offer.server import Server

HERE = ("", "localhost")
"""Hosts of `file:` URIs that mean this machine."""


class FoundResource(NamedTuple):
    """A resource to read."""

    reader: Reader
    uri: str
    """The URI under which it is listed, or that of the client for a template."""
    variables: dict[str, str]
    mime_type: str
    is_folder_code: bool


def find_resource(server: Server, uri: str) -> FoundResource | None:
    """Return what is behind a URI or a path; None if it is unknown.

    An absolute path must begin with the server's folder as the server knows it, which is without links.
    """
    resource = server.resources.get(uri)
    if resource is None and (paths := _paths_of(uri)):
        resource = next((each for each in server.resources if _is_at(each, paths, server)), None)
    if resource is not None:
        return FoundResource(resource.reader, resource.uri, {}, resource.mime_type, resource.is_folder_code)
    for template in server.templates:
        variables = match(template.uri_template, uri)
        if variables is not None:
            return FoundResource(template.reader, uri, variables, template.mime_type, template.is_folder_code)
    return None


def _is_at(resource: Resource, paths: set[str], server: Server) -> bool:
    if not resource.path:
        return False
    return resource.path in paths or (
        server.folder is not None and f"{server.folder.as_posix()}/{resource.path}" in paths
    )


def _paths_of(uri: str) -> set[str]:
    """Paths that a client may mean, without `.` and `..`; empty for a URI that is no path."""
    scheme, colon, _ = uri.partition(":")
    if colon and scheme.lower() == "file":
        try:
            parts = urlsplit(uri)
        except ValueError:
            return set()
        if parts.netloc.lower() not in HERE or parts.query or parts.fragment:
            return set()
        paths = {unquote(parts.path)}
    elif not uri or (colon and "/" not in scheme):
        return set()
    else:
        paths = {uri, unquote(uri)}
    return {posixpath.normpath(path).replace("//", "/", 1) for path in paths if path}
