"""Tools that need a token. The token is verified before the call. `ctx.claims` contains its claims."""

from ledger import account_of, balances, payments

from mcpdesk import Context, tool


@tool(requires_jwt=True, read_only=True)
async def whoami(ctx: Context) -> dict[str, str]:
    """Return the account, the subject and the id of the caller's token."""
    claims = ctx.claims or {}
    return {"account": account_of(claims), "subject": claims["sub"], "token": claims["tokenId"]}


@tool(scopes="wallet:read", read_only=True)
async def balance(ctx: Context) -> str:
    """Return the caller's balance."""
    account = account_of(ctx.claims or {})
    return f"{account} has {balances[account] / 100:.2f} EUR."


# The scope of this tool is in "auth" of mcp.json. This also works for built-in tools.
@tool(read_only=True)
async def history(ctx: Context) -> dict[str, list[dict[str, str | int]]]:
    """List the caller's payments, oldest first."""
    account = account_of(ctx.claims or {})
    return {"payments": [each._asdict() for each in payments if account in (each.sender, each.receiver)]}
