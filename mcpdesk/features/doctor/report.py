"""Report of a check-up. It is also the schema of `mcpdesk doctor --json`.

Texts may contain unsafe characters. Secrets are masked.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

VERSION = 1
"""Number of the schema. It changes when a member is removed or its meaning changes, not when one is added."""


class CheckState(StrEnum):
    """Result for one server."""

    OK = "ok"
    """It answered, and its lists were read."""
    FAILED = "failed"
    """It could not be started or reached, or did not answer correctly or in time."""
    NOT_TRUSTED = "not trusted"
    """It was not started, because its configuration file is not trusted."""
    UNUSABLE = "unusable"
    """It was not started, because its entry is invalid or has a variable without a value."""
    ONLY_IN_CLIENT = "only in client"
    """It was not started, because only its client can use it."""
    DISABLED = "disabled"
    """It was not started, because its entry is switched off."""


class LoginState(StrEnum):
    """Login to a server over HTTP."""

    NONE = "none"
    """No token is stored."""
    VALID = "valid"
    RENEWABLE = "renewable"
    """The token has expired, and can be renewed without a person."""
    EXPIRED = "expired"
    HEADER = "header"
    """The configuration contains the Authorization header."""


class UnsafeKind(StrEnum):
    """Kinds of unsafe settings."""

    PLAIN_HTTP = "plain http"
    TOKEN_IN_URL = "token in url"
    KEY_IN_ARGUMENTS = "key in arguments"


class Totals(Struct, frozen=True):
    """Size of several definitions as a client receives them. `tokens` is an estimate."""

    count: int = 0
    bytes: int = 0
    tokens: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return the sum."""
        return Totals(self.count + other.count, self.bytes + other.bytes, self.tokens + other.tokens)


class OtherEra(Struct, frozen=True):
    """Answer of a server to the first request of the era that was not agreed."""

    era: Literal["handshake", "stateless"]
    is_supported: bool
    answer: str
    """Revision if the era is supported. Otherwise the error, for a person."""


class Login(Struct, frozen=True):
    """Login to a server over HTTP."""

    state: LoginState
    expires: float | None = None
    """Unix time in seconds, or null if unknown."""
    scopes: list[str] = []


class LockChange(Struct, frozen=True):
    """Difference between a server and its lock file."""

    verdict: Literal["breaking", "compatible", "wording"]
    subject: str
    """Kind and name of the item, such as `tool echo`."""
    message: str


class LockCheck(Struct, frozen=True):
    """Comparison of a server with its lock file."""

    file: str
    verdict: Literal["same", "breaking", "compatible", "wording", "unreadable"]
    """The most severe verdict of all changes."""
    changes: list[LockChange] = []


class UnsafeSetting(Struct, frozen=True):
    """Unsafe setting in the entry of a server."""

    kind: UnsafeKind
    message: str
    hint: str


class ServerReport(Struct, frozen=True):
    """Result for one server. The first members are those of `mcpdesk list --json`."""

    target: str
    client: str
    name: str
    scope: str
    file: str
    project: str
    transport: str
    address: str
    trusted: bool
    disabled: bool
    state: CheckState
    shadowed: bool = False
    """True if an earlier file of the client has a server with this name. The client then ignores this one."""
    reason: str = ""
    """Reason why the server failed or was not started."""
    hint: str = ""
    """Advice for a person."""
    stderr: list[str] = []
    """Last lines on stderr, if the server failed."""
    start_s: float | None = None
    """Seconds from the start of the connection until the revision was agreed."""
    server: str = ""
    """Name that the server reports."""
    server_version: str = ""
    """Version that the server reports."""
    era: Literal["", "handshake", "stateless"] = ""
    revision: str = ""
    other_era: OtherEra | None = None
    tools: Totals | None = None
    """All tools."""
    total: Totals | None = None
    """All tools, resources, templates, prompts and skills."""
    login: Login | None = None
    """Null for a program."""
    lock: LockCheck | None = None
    """Null if the server has no lock file."""
    unsafe: list[UnsafeSetting] = []
    remarks: list[str] = []
    """Faults in the entry, and in the server's lists."""

    @property
    def has_fault(self) -> bool:
        """True if the server is a reason for exit code 1."""
        is_down = self.state in (CheckState.FAILED, CheckState.UNUSABLE)
        is_changed = self.lock is not None and self.lock.verdict in ("breaking", "unreadable")
        return is_down or is_changed or bool(self.unsafe)


class BrokenFile(Struct, frozen=True):
    """Configuration file that cannot be read."""

    client: str
    file: str
    reason: str
    """Reason, with the line if it is known."""


class EntryDifference(Struct, frozen=True):
    """Difference between entries of the same server."""

    kind: Literal["version", "reported version", "arguments", "variables", "headers"]
    message: str


class Duplicate(Struct, frozen=True):
    """Server with several entries."""

    server: str
    """Package, image, program or URL."""
    targets: list[str]
    differences: list[EntryDifference] = []
    """Empty if the entries are equal."""


class ClientBudget(Struct, frozen=True):
    """Definitions of all tools that one client gives to its model. Shadowed servers are not counted."""

    client: str
    """Name of the client, or path of a file of no known client."""
    servers: int
    """Number of servers."""
    tools: Totals
    uncounted: int
    """Number of servers whose tools are unknown, because they failed or were not started."""


class Report(Struct, frozen=True):
    """Result for all servers."""

    version: int
    ok: bool
    """True if no error was found. Servers that were not started because of trust are errors only if the
    command names a target.
    """
    servers: list[ServerReport]
    problems: list[BrokenFile]
    duplicates: list[Duplicate]
    clients: list[ClientBudget]
    over_budget: list[str]
    """Clients and open connections whose tools have more tokens than `--max-tokens`."""
    seconds: float
    """Duration of the check-up."""
    is_cut: bool = False
    """True if there are more configuration files or servers than are read."""
