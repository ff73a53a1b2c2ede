"""Plan of an open connection, as `mcpdesk up` gives it to the process that keeps the connection.

The plan has secrets, such as tokens and expanded variables. It is written to the standard input of the
process, so that other programs cannot see it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mcpdesk.client.credentials import credential_headers
from mcpdesk.client.targets import CommandTarget, FolderTarget, Target, UrlTarget
from mcpdesk.features.open_connections.report import ConnectionReport, TransportKind
from mcpdesk.upstream.target_transport import Reach, login_options

API_KEY_HEADER = "X-API-Key"
KINDS: dict[str, TransportKind] = {"http": "http", "sse": "sse", "ws": "ws"}


class ConnectionPlan(Struct, frozen=True):
    """Server to connect to. One of `folder`, `url` and `command` is set."""

    name: str
    text: str
    """Target as the person gave it, with secrets masked."""
    key: str
    """Identity of the server."""
    keep_open_s: int
    reach: Reach = Reach()
    folder: FolderTarget | None = None
    url: UrlTarget | None = None
    command: CommandTarget | None = None
    key_header: str = API_KEY_HEADER
    """HTTP header for the key in `reach`."""

    @property
    def server_and_options(self) -> tuple[Target, Reach]:
        """Server, and the options for a second connection to it.

        For a URL, the login, headers, token and key are in the target instead of the options.
        """
        target = self.folder or self.url or self.command
        assert target is not None
        if not isinstance(target, UrlTarget):
            return target, self.reach
        reach = self.reach
        headers = dict(target.headers) | dict(reach.headers)
        target = msgspec.structs.replace(
            target,
            headers=credential_headers(reach.token, reach.key, self.key_header, headers),
            account=target.account or reach.account,
            login=login_options(target, reach),
        )
        return target, Reach(reach.mode, revision=reach.revision)

    @property
    def transport(self) -> TransportKind:
        """Transport to the server. A URL without a kind may turn out to be `sse`."""
        if self.url is not None:
            return KINDS.get(self.url.kind, "http")
        return "folder" if self.folder is not None else "stdio"


class Outcome(Struct, frozen=True):
    """Result of the connection attempt: a report of the connection, or an error."""

    report: ConnectionReport | None = None
    message: str = ""
    hint: str = ""
    exit_code: int = 0
    log: list[str] = []
    """Last lines of the server's output."""
    is_taken: bool = False
    """True if another process has a connection of this name."""


def plan_of(
    name: str,
    text: str,
    key: str,
    keep_open_s: int,
    target: Target,
    reach: Reach,
    key_header: str = API_KEY_HEADER,
) -> ConnectionPlan:
    """Return the plan for a resolved target."""
    plan = ConnectionPlan(name, text, key, keep_open_s, reach, key_header=key_header)
    replace = msgspec.structs.replace
    if isinstance(target, FolderTarget):
        return replace(plan, folder=target)
    return replace(plan, url=target) if isinstance(target, UrlTarget) else replace(plan, command=target)


def encoded(value: ConnectionPlan | Outcome) -> bytes:
    """Return the JSON of a plan or an outcome, as one line."""
    return msgspec.json.encode(value, enc_hook=_encoded) + b"\n"


def decoded_plan(data: bytes) -> ConnectionPlan:
    """Return the plan in a JSON text. Raises: MsgspecError."""
    return msgspec.json.decode(data, type=ConnectionPlan, dec_hook=_decoded)


def decoded_outcome(data: bytes) -> Outcome:
    """Return the outcome in a JSON text. Raises: MsgspecError."""
    return msgspec.json.decode(data, type=Outcome)


def _encoded(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value)} cannot be sent")


def _decoded(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(f"{kind} cannot be received")
