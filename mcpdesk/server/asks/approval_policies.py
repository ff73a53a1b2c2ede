"""Which tools clients may call: a policy a tool, and the peers that need not be asked about again.

What is chosen at the desk counts before the setting, and that before `mcp.json`; in each, a tool's own line
before `*`. Knows nothing of how a person is asked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mcpdesk.errors import StorageError

if TYPE_CHECKING:
    from mcpdesk.storage.approvals import Grant
    from mcpdesk.storage.database import StateData

EVERY = "*"
"""Stands for all tools that are not named."""
AT_DESK = "chosen at the desk"


class Policy(StrEnum):
    """Whether a tool may be called by clients."""

    ALLOW = "allow"
    ASK = "ask"
    """A person at the desk approves each call of a client; the desk's own are not asked about."""
    DENY = "deny"
    """Nobody may call it, the desk neither."""


class Ruling(Struct, frozen=True):
    """The policy of a tool and where it was given; nowhere: nobody gave one."""

    policy: Policy
    origin: str


Layer = tuple[str, Mapping[str, Policy]]
"""Where policies were given, and those by tool."""
ALLOWED = Ruling(Policy.ALLOW, "")


class RulesState(Protocol):
    """What approvals need of the state of their server."""

    rules: int
    """Grows whenever other tools may run than before."""

    async def look_for_state(self) -> bool:
        """Whether there is a state file by now."""

    @property
    def data(self) -> StateData:
        """The state file, made when it is asked for."""


class Approvals:
    """The approval policies of one server. Used on the core's loop; `ruling` and `grants` from any thread."""

    def __init__(self, state: RulesState) -> None:
        self.grants: tuple[Grant, ...] = ()
        """Those of this process and of earlier ones, newest first."""
        self.waiting: dict[int, tuple[str, str]] = {}
        """Tool and peer of the calls that wait in the inbox, by the number of the question."""
        self._state = state
        self._layers: tuple[Layer, ...] = ()
        self._chosen: dict[str, Policy] = {}
        self._is_kept = True
        """Whether the file has all that was chosen here."""

    def configure(self, *layers: Layer) -> None:
        """Set the configured policies, the strongest layer first."""
        if layers != self._layers:
            self._layers = layers
            self._state.rules += 1

    def ruling(self, tool: str) -> Ruling:
        """The policy that counts for a tool."""
        chosen = self._chosen.get(tool)
        return self._configured(tool) if chosen is None else Ruling(chosen, AT_DESK)

    def allows(self, tool: str) -> bool:
        """Whether a tool may be called without anybody being asked."""
        return self.ruling(tool).policy is Policy.ALLOW

    def asks_about(self, tool: str) -> bool:
        """Whether somebody is to be asked before a client calls a tool, unless its peer is known."""
        return self.ruling(tool).policy is Policy.ASK

    def refusal(self, tool: str) -> str:
        """Why a tool may never be called; empty when it may, or somebody is to be asked."""
        ruling = self.ruling(tool)
        if ruling.policy is not Policy.DENY:
            return ""
        return f"{tool} may not be called: its policy is deny ({ruling.origin})."

    async def choose(self, tool: str, wanted: Policy) -> None:
        """Let another policy count at once, and keep it; what is configured anyway needs no keeping.

        Raises: StorageError when it cannot be kept; it counts until the server stops, then.
        """
        from mcpdesk.storage import approvals as kept

        chosen = None if wanted is self._configured(tool).policy else wanted
        others = {name: policy for name, policy in self._chosen.items() if name != tool}
        self._take(others if chosen is None else others | {tool: chosen})
        try:
            await self._state.data.run(lambda connection: kept.keep_policy(connection, tool, chosen))
        except StorageError:
            self._is_kept = False
            raise

    def is_granted(self, tool: str, peer: str) -> bool:
        """Whether a peer need not be asked about."""
        return any((each.tool, each.peer) == (tool, peer) for each in self.grants)

    async def grant(self, tool: str, peer: str) -> None:
        """Ask about a peer's calls of a tool no more. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        now = time.time()
        self.grants = await self._state.data.run(lambda connection: kept.grant(connection, tool, peer, now))

    async def revoke(self, tool: str, peer: str) -> None:
        """Ask about them again. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        self.grants = await self._state.data.run(lambda connection: kept.revoke(connection, tool, peer))

    async def recall(self) -> None:
        """Load what earlier runs, and other processes, kept. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        if not await self._state.look_for_state():
            return
        rules = self._state.rules
        self.grants, chosen = await self._state.data.run(
            lambda connection: (kept.grants(connection), kept.policies(connection))
        )
        if self._is_kept and self._state.rules == rules:
            known = set(Policy)
            self._take({name: Policy(policy) for name, policy in chosen.items() if policy in known})

    def _take(self, chosen: dict[str, Policy]) -> None:
        if chosen != self._chosen:
            self._chosen = chosen
            self._state.rules += 1

    def _configured(self, tool: str) -> Ruling:
        for origin, policies in self._layers:
            policy = policies.get(tool) or policies.get(EVERY)
            if policy is not None:
                return Ruling(policy, origin)
        return ALLOWED


def policies_of(pairs: Sequence[str]) -> dict[str, Policy]:
    """`TOOL=policy` by tool; of two for one tool the last counts."""
    split = (each.rpartition("=") for each in pairs)
    return {name: Policy(policy) for name, _, policy in split}
