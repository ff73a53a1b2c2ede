"""Switch the policy of a tool."""

from __future__ import annotations

from mcpdesk.server.asks.approval_policies import Approvals, Policy


async def next_policy(approvals: Approvals, tool: str) -> None:
    """Apply the next policy: allow, ask, deny, and allow again."""
    every = list(Policy)
    await approvals.choose(
        tool, every[(every.index(approvals.effective_policy(tool).policy) + 1) % len(every)]
    )
