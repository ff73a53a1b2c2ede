"""The handshake era: state of one session and its valid transitions.

Source: MCP basic/versioning, basic/transports/stdio.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.client_questions import Terms, display_name
from mcpdesk.protocol.jsonrpc import invalid, invalid_params
from mcpdesk.protocol.methods import LOG_LEVELS
from mcpdesk.protocol.revisions import SERVED_NAMES, SESSIONLESS_DEFAULT, Revision, negotiate

DEFAULT_LOG_LEVEL = LOG_LEVELS.index("info")


class Phase(Enum):
    """Phase of a session."""

    NEW = "new"
    OPENED = "opened"
    """`initialize` was answered, but `notifications/initialized` has not arrived yet."""
    READY = "ready"


class SessionState(Struct, frozen=True, omit_defaults=True):
    """State of a session that another process needs to continue it."""

    opening: dict[str, Any]
    """Parameters of the `initialize` request that are needed to repeat it."""
    is_ready: bool = False
    level: str = ""
    """Log level that the client requested."""
    subscriptions: tuple[str, ...] = ()
    mark: str = ""
    """Key with which the storage finds state of the session, such as its plan."""


def merged_state(base: SessionState, own_state: SessionState, stored_state: SessionState) -> SessionState:
    """Merge the changes that two processes made to a session. `base` is the state before both changes."""
    added = set(own_state.subscriptions) - set(base.subscriptions)
    removed = set(base.subscriptions) - set(own_state.subscriptions)
    return SessionState(
        own_state.opening,
        own_state.is_ready or stored_state.is_ready,
        own_state.level if own_state.level != base.level else stored_state.level,
        tuple(sorted((set(stored_state.subscriptions) | added) - removed)),
        stored_state.mark or own_state.mark,
    )


_STORED_FIELDS = ("protocolVersion", "capabilities", "clientInfo")
_SESSIONLESS = Terms(SESSIONLESS_DEFAULT, log_level=DEFAULT_LOG_LEVEL)


class Session:
    """One conversation of the handshake era. A second handshake in it is an error."""

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.terms = _SESSIONLESS
        self.subscriptions: set[str] = set()
        self.opening: dict[str, Any] | None = None
        """Parameters of the `initialize` request, or None before it."""

    @property
    def is_open(self) -> bool:
        """True if a handshake took place."""
        return self.phase is not Phase.NEW

    def initialize(self, params: dict[str, Any]) -> Revision:
        """Apply an `initialize` request and return the negotiated revision.

        Raises: RemoteProtocolError for a second handshake (-32600) or invalid parameters (-32602).
        """
        if self.is_open:
            raise invalid("this session is already initialized")
        offered_version = params.get("protocolVersion")
        if not isinstance(offered_version, str):
            data = {"supported": list(SERVED_NAMES), "requested": offered_version}
            raise invalid_params(f"protocolVersion must be one of {', '.join(SERVED_NAMES)}", data)
        capabilities = params.get("capabilities", {})
        if not isinstance(capabilities, dict):
            raise invalid_params("capabilities must be an object")
        revision = negotiate(offered_version)
        self.terms = Terms(revision, capabilities, display_name(params.get("clientInfo")), DEFAULT_LOG_LEVEL)
        self.phase, self.opening = Phase.OPENED, params
        return revision

    def initialized(self) -> None:
        """Apply `notifications/initialized`."""
        if self.phase is Phase.OPENED:
            self.phase = Phase.READY

    @property
    def requested_level(self) -> str:
        """Log level that the client requested, or "" if it requested none."""
        level = self.terms.log_level
        return "" if level is None or level == DEFAULT_LOG_LEVEL else LOG_LEVELS[level]

    @property
    def state(self) -> SessionState:
        """Present state of an open session."""
        opening = {key: value for key, value in (self.opening or {}).items() if key in _STORED_FIELDS}
        is_ready, subscribed = self.phase is Phase.READY, tuple(sorted(self.subscriptions))
        return SessionState(opening, is_ready, self.requested_level, subscribed)

    def restore(self, state: SessionState) -> None:
        """Continue a session of another process.

        Raises: RemoteProtocolError if such a session is no longer served.
        """
        self.initialize(state.opening)
        if state.level:
            self.set_level(state.level)
        self.subscriptions.update(state.subscriptions)
        if state.is_ready:
            self.initialized()

    def catch_up(self, state: SessionState) -> None:
        """Apply the changes in a newer state of the same session."""
        if state.level and state.level != self.requested_level:
            self.set_level(state.level)
        self.subscriptions.intersection_update(state.subscriptions)
        self.subscriptions.update(state.subscriptions)
        if state.is_ready:
            self.initialized()

    def assume_revision(self, revision: Revision, client: str = "") -> None:
        """Serve a client without a handshake, as HTTP allows.

        `revision` is the revision in the version header.
        """
        self.terms = Terms(revision, client=client, log_level=DEFAULT_LOG_LEVEL)

    def set_level(self, level: str) -> None:
        """Apply `logging/setLevel`. Raises: RemoteProtocolError (-32602) for an unknown level."""
        terms = self.terms
        self.terms = Terms(terms.revision, terms.capabilities, terms.client, log_level(level))


def log_level(level: object) -> int:
    """Return the severity index of a level's name.

    Raises: RemoteProtocolError (-32602) with the valid names.
    """
    if not isinstance(level, str) or level not in LOG_LEVELS:
        given_level = repr(level[:80]) if isinstance(level, str) else "(no text)"
        raise invalid_params(f"Unknown log level {given_level}; known: {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS.index(level)
