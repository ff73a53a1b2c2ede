"""Approval policies of tools, and the peers whose calls are approved permanently.

A choice at the desk comes before the setting, and the setting before `mcp.json`. Within each of these layers,
the entry of a tool comes before `*`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.errors import StorageError

if TYPE_CHECKING:
    from mcpdesk.storage.approvals import Grant
    from mcpdesk.storage.database import StateData

EVERY_TOOL = "*"
"""Name that stands for all tools without an entry of their own."""
AT_DESK = "chosen at the desk"


class Policy(StrEnum):
    """Rule for calls of a tool."""

    ALLOW = "allow"
    ASK = "ask"
    """A person at the desk must approve each call of a client. The desk itself needs no approval."""
    DENY = "deny"
    """No client may call the tool, and neither may the desk."""


class EffectivePolicy(Struct, frozen=True):
    """Effective policy of a tool, and where it comes from. The origin of the default policy is empty."""

    policy: Policy
    origin: str


Layer = tuple[str, Mapping[str, Policy]]
"""Origin of a layer of policies, and its policies by tool."""
ALLOWED = EffectivePolicy(Policy.ALLOW, "")


class Approvals:
    """Approval policies of one server.

    Use them on the core's loop. `ruling` and `grants` may be used on any thread.
    """

    def __init__(
        self,
        data: Callable[[], StateData],
        has_data: Callable[[], Awaitable[bool]],
        on_change: Callable[[], None],
    ) -> None:
        """`has_data` returns True if the state file exists. `data` returns the file, and creates it if
        needed.

        `on_change` is called when the set of tools that may run has changed.
        """
        self.grants: tuple[Grant, ...] = ()
        """Permanent approvals of this process and of earlier ones, newest first."""
        self.waiting: dict[int, tuple[str, str]] = {}
        """Tool and peer of each call that waits in the inbox, by number of the question."""
        self._data, self._has_data, self._on_change = data, has_data, on_change
        self._layers: tuple[Layer, ...] = ()
        self._chosen: dict[str, Policy] = {}
        self._is_kept = True
        """True if all choices made in this process are in the file."""

    def configure(self, *layers: Layer) -> None:
        """Set the layers of configured policies, beginning with the highest priority."""
        if layers != self._layers:
            self._layers = layers
            self._on_change()

    def ruling(self, tool: str) -> EffectivePolicy:
        """Return the effective policy of a tool."""
        chosen = self._chosen.get(tool)
        return self._configured(tool) if chosen is None else EffectivePolicy(chosen, AT_DESK)

    def allows(self, tool: str) -> bool:
        """Return True if a tool may be called without approval."""
        return self.ruling(tool).policy is Policy.ALLOW

    def requires_question(self, tool: str) -> bool:
        """Return True if a client's call of a tool needs approval, unless its peer has a permanent
        approval.
        """
        return self.ruling(tool).policy is Policy.ASK

    def refusal(self, tool: str) -> str:
        """Return the reason why a tool can never be called, or "" if it can, or if a person decides."""
        ruling = self.ruling(tool)
        if ruling.policy is not Policy.DENY:
            return ""
        return f"{tool} must not be called: its policy is deny ({ruling.origin})."

    async def choose(self, tool: str, wanted: Policy) -> None:
        """Apply another policy at once. Store the policy, unless it equals the configured policy.

        Raises: StorageError if the policy cannot be stored; the policy then applies until the server stops.
        """
        from mcpdesk.storage import approvals as kept

        chosen = None if wanted is self._configured(tool).policy else wanted
        others = {name: policy for name, policy in self._chosen.items() if name != tool}
        self._set_chosen(others if chosen is None else others | {tool: chosen})
        try:
            await self._data().run(lambda connection: kept.set_policy(connection, tool, chosen))
        except StorageError:
            self._is_kept = False
            raise

    def is_granted(self, tool: str, peer: str) -> bool:
        """Return True if calls of this tool by this peer are approved permanently."""
        return any((each.tool, each.peer) == (tool, peer) for each in self.grants)

    async def grant(self, tool: str, peer: str) -> None:
        """Approve a peer's calls of a tool permanently. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        now = time.time()
        self.grants = await self._data().run(lambda connection: kept.grant(connection, tool, peer, now))

    async def revoke(self, tool: str, peer: str) -> None:
        """Withdraw a permanent approval. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        self.grants = await self._data().run(lambda connection: kept.revoke(connection, tool, peer))

    async def recall(self) -> None:
        """Load approvals and choices of earlier runs and of other processes. Raises: StorageError."""
        from mcpdesk.storage import approvals as kept

        if not await self._has_data():
            return
        before = self._chosen
        self.grants, chosen = await self._data().run(
            lambda connection: (kept.grants(connection), kept.policies(connection))
        )
        if self._is_kept and self._chosen is before:
            known = set(Policy)
            self._set_chosen({name: Policy(policy) for name, policy in chosen.items() if policy in known})

    def _set_chosen(self, chosen: dict[str, Policy]) -> None:
        if chosen != self._chosen:
            self._chosen = chosen
            self._on_change()

    def _configured(self, tool: str) -> EffectivePolicy:
        for origin, policies in self._layers:
            policy = policies.get(tool) or policies.get(EVERY_TOOL)
            if policy is not None:
                return EffectivePolicy(policy, origin)
        return ALLOWED


def policies_of(pairs: Sequence[str]) -> dict[str, Policy]:
    """Return the policies in strings of the form `TOOL=policy`, by tool. The last one for a tool counts."""
    split = (each.rpartition("=") for each in pairs)
    return {name: Policy(policy) for name, _, policy in split}
