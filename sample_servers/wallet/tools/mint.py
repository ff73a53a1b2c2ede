"""With a precondition: without the variable the tool is not offered, and the desk shows why."""

from ledger import balances

from mcpdesk import tool


@tool(requires_env="WALLET_MINT_KEY", scopes="wallet:mint", destructive=True)
async def mint(to: str, cents: int) -> str:
    """Make money out of nothing.

    Args:
        to: The account that gets it.
        cents: Whole euro cents.
    """
    balances[to] += cents
    return f"{to} has {balances[to] / 100:.2f} EUR now."
