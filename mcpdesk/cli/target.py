"""The client for a target: of the server at a URL, or of a server folder."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mcpdesk.cli.reach import HERE, Reach, folder_needs_no_key, is_url

if TYPE_CHECKING:
    from mcpdesk.cli.client import Client


def client(target: str, reach: Reach = HERE) -> AbstractContextManager[Client]:
    """A client of the server at a URL, or of a server folder, hosted for as long as the block runs.

    What a folder's code prints goes to stderr. Raises: DeskError when it cannot be hosted, or reached.
    """
    if is_url(target):
        from mcpdesk.cli.remote import remote

        return remote(target, reach)
    from mcpdesk.cli.core_process import require_unix

    require_unix("Hosting a folder for one request")
    from mcpdesk.cli.hosted_client import hosted

    folder_needs_no_key(reach)
    return hosted(target, reach.mode, reach.token)
