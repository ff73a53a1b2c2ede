"""For whoever has a token. What it says is `ctx.claims`; it was checked before the function began."""

from ledger import account_of, balances, payments

from mcpdesk import Context, tool


@tool(requires_jwt=True, read_only=True)
async def whoami(ctx: Context) -> dict[str, str]:
    """Say whose token this is."""
    claims = ctx.claims or {}
    return {"account": account_of(claims), "subject": claims["sub"], "token": claims["tokenId"]}


@tool(scopes="wallet:read", read_only=True)
async def balance(ctx: Context) -> str:
    """Say how much the caller has."""
    account = account_of(ctx.claims or {})
    return f"{account} has {balances[account] / 100:.2f} EUR."


# Says nothing of tokens itself: "auth" in mcp.json asks for the scope, as it can for built-in tools.
@tool(read_only=True)
async def history(ctx: Context) -> dict[str, list[dict[str, str | int]]]:
    """List the caller's payments, oldest first."""
    account = account_of(ctx.claims or {})
    return {"payments": [each._asdict() for each in payments if account in (each.sender, each.receiver)]}
