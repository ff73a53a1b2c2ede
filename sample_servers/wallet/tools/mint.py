"""A tool that needs a variable. Without it, the tool is not offered, and the desk shows the reason."""

from ledger import balances

from mcpdesk import tool


@tool(requires_env="WALLET_MINT_KEY", scopes="wallet:mint", destructive=True)
async def mint(to: str, cents: int) -> str:
    """Add money to an account.

    Args:
        to: Account that receives the money.
        cents: Amount in whole euro cents.
    """
    balances[to] += cents
    return f"{to} has {balances[to] / 100:.2f} EUR now."
