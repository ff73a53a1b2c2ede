"""Report of a login check. It is also the schema of `mcpdesk doctor --login TARGET --json`.

Texts may contain unsafe characters. Secrets are masked.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

VERSION = 1
"""Number of the schema. It changes when a member is removed or its meaning changes, not when one is added."""


class StepName(StrEnum):
    """Steps of a login, in their order."""

    REQUEST = "request"
    """Request without a token."""
    RESOURCE = "resource metadata"
    """Metadata of the server as a protected resource."""
    SERVER = "authorization server metadata"
    REGISTRATION = "registration"
    """Id of this client at the authorization server."""
    AUTHORIZATION = "authorization"
    """Login of a person in a browser."""
    TOKEN = "token"
    """Access token, and its use at the server."""
    REFRESH = "refresh"
    """Renewal of the token."""


class StepState(StrEnum):
    """Result of one step."""

    OK = "ok"
    WARNING = "warning"
    """The server does not follow a recommendation, or breaks a rule that does not stop the login."""
    BROKEN = "broken"
    """A rule is broken, and the login does not work."""
    NEEDS_PERSON = "needs a person"
    NOT_NEEDED = "not needed"
    """The step is not necessary now, so it was not tried."""
    NOT_REACHED = "not reached"
    """An earlier step failed."""


class RuleState(StrEnum):
    """Result for one rule."""

    FOLLOWED = "followed"
    WARNING = "warning"
    BROKEN = "broken"


class LoginRule(Struct, frozen=True):
    """Rule of a specification, and what was observed."""

    state: RuleState
    rule: str
    """Text of the rule."""
    source: str
    """Specification and section. May be empty."""
    observed: str
    hint: str = ""
    """Advice, if the rule is not followed."""


class LoginStep(Struct, frozen=True):
    """One step of a login."""

    name: StepName
    state: StepState
    values: dict[str, str] = {}
    """Values of the step by name, such as URLs and scopes."""
    rules: list[LoginRule] = []


class LoginReport(Struct, frozen=True):
    """Result of a login check."""

    version: int
    ok: bool
    """True if no rule is broken and a request with the token is accepted, so that the exit code is 0."""
    target: str
    url: str
    needs_person: bool
    """True if a person must log in with a browser."""
    next: str
    """Command that logs in. Empty if no login is needed, or a login would fail."""
    steps: list[LoginStep]
    seconds: float
    """Duration of the check."""
