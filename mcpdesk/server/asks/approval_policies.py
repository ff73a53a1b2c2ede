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
"""Name of the entry for all tools that have no entry with their own name."""
DESK_ORIGIN = "chosen at the desk"


class Policy(StrEnum):
    """Rule for calls of a tool."""

    ALLOW = "allow"
    ASK = "ask"
    """A person at the desk must approve each call of a client. The desk itself needs no approval."""
    DENY = "deny"
    """No client may call the tool, and neither may the desk."""


class EffectivePolicy(Struct, frozen=True):
    """Effective policy of a tool."""

    policy: Policy
    origin: str
    """Name of the layer that sets the policy, or "" for the default."""


Layer = tuple[str, Mapping[str, Policy]]
"""Origin of a layer of policies, and its policies by tool."""
ALLOWED = EffectivePolicy(Policy.ALLOW, "")


class Approvals:
    """Approval policies of one server.

    Use them on the core's loop. `effective_policy` and `grants` may be used on any thread.
    """

    def __init__(
        self,
        data: Callable[[], StateData],
        has_data: Callable[[], Awaitable[bool]],
        on_change: Callable[[], None],
    ) -> None:
        """`has_data` returns True if the state file exists. `data` opens the file, and creates it if needed.

        `on_change` is called when the set of tools that may run has changed.
        """
        self.grants: tuple[Grant, ...] = ()
        """Permanent approvals of this process and of earlier ones, newest first."""
        self.waiting_calls: dict[int, tuple[str, str]] = {}
        """Tool and peer of each call that waits in the inbox, by number of the question."""
        self._data, self._has_data, self._on_change = data, has_data, on_change
        self._layers: tuple[Layer, ...] = ()
        self._desk_policies: dict[str, Policy] = {}
        self._are_stored = True
        """True if all policies that were chosen in this process are in the state file."""

    def configure(self, *layers: Layer) -> None:
        """Set the layers of configured policies, beginning with the highest priority."""
        if layers != self._layers:
            self._layers = layers
            self._on_change()

    def effective_policy(self, tool: str) -> EffectivePolicy:
        """Return the effective policy of a tool."""
        desk_policy = self._desk_policies.get(tool)
        if desk_policy is None:
            return self._configured_policy(tool)
        return EffectivePolicy(desk_policy, DESK_ORIGIN)

    def allows(self, tool: str) -> bool:
        """Return True if a tool may be called without approval."""
        return self.effective_policy(tool).policy is Policy.ALLOW

    def requires_question(self, tool: str) -> bool:
        """Return True if a client's call of a tool needs approval, unless its peer has a permanent
        approval.
        """
        return self.effective_policy(tool).policy is Policy.ASK

    def refusal(self, tool: str) -> str:
        """Return the reason why a tool can never be called, or "" if it can, or if a person decides."""
        effective = self.effective_policy(tool)
        if effective.policy is not Policy.DENY:
            return ""
        return f"{tool} must not be called: its policy is deny ({effective.origin})."

    async def choose(self, tool: str, new_policy: Policy) -> None:
        """Apply another policy at once. Store the policy, unless it equals the configured policy.

        Raises: StorageError if the policy cannot be stored; the policy then applies until the server stops.
        """
        from mcpdesk.storage import approvals as approval_table

        desk_policy = None if new_policy is self._configured_policy(tool).policy else new_policy
        desk_policies = {name: policy for name, policy in self._desk_policies.items() if name != tool}
        if desk_policy is not None:
            desk_policies[tool] = desk_policy
        self._set_desk_policies(desk_policies)
        try:
            await self._data().run(
                lambda connection: approval_table.set_policy(connection, tool, desk_policy)
            )
        except StorageError:
            self._are_stored = False
            raise

    def is_granted(self, tool: str, peer: str) -> bool:
        """Return True if calls of this tool by this peer are approved permanently."""
        return any((each.tool, each.peer) == (tool, peer) for each in self.grants)

    async def grant(self, tool: str, peer: str) -> None:
        """Approve a peer's calls of a tool permanently. Raises: StorageError."""
        from mcpdesk.storage import approvals as approval_table

        now = time.time()
        self.grants = await self._data().run(
            lambda connection: approval_table.grant(connection, tool, peer, now)
        )

    async def revoke(self, tool: str, peer: str) -> None:
        """Withdraw a permanent approval. Raises: StorageError."""
        from mcpdesk.storage import approvals as approval_table

        self.grants = await self._data().run(lambda connection: approval_table.revoke(connection, tool, peer))

    async def load(self) -> None:
        """Load approvals and choices of earlier runs and of other processes. Raises: StorageError."""
        from mcpdesk.storage import approvals as approval_table

        if not await self._has_data():
            return
        earlier_policies = self._desk_policies
        self.grants, stored_policies = await self._data().run(
            lambda connection: (approval_table.grants(connection), approval_table.policies(connection))
        )
        if self._are_stored and self._desk_policies is earlier_policies:
            policy_names = set(Policy)
            self._set_desk_policies(
                {name: Policy(policy) for name, policy in stored_policies.items() if policy in policy_names}
            )

    def _set_desk_policies(self, policies: dict[str, Policy]) -> None:
        if policies != self._desk_policies:
            self._desk_policies = policies
            self._on_change()

    def _configured_policy(self, tool: str) -> EffectivePolicy:
        for origin, policies in self._layers:
            policy = policies.get(tool) or policies.get(EVERY_TOOL)
            if policy is not None:
                return EffectivePolicy(policy, origin)
        return ALLOWED


def policies_of(pairs: Sequence[str]) -> dict[str, Policy]:
    """Return the policies in strings of the form `TOOL=policy`, by tool. If a tool occurs several times, the
    last policy counts.
    """
    names_and_policies = (each.rpartition("=") for each in pairs)
    return {name: Policy(policy) for name, _, policy in names_and_policies}
