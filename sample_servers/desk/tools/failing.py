"""Failing well: `fail()` ends a handler with a message a person or a model can act on, and data beside it."""

from typing import Annotated

from mcpdesk import Meta, fail, tool

BALANCE = 100


@tool(name="withdraw-cash", destructive=True)
async def withdraw(
    amount: Annotated[int, Meta(ge=1, description="How much; there are 100 in the account.")],
) -> str:
    """Withdraw money from an account that never changes. Ask for more than there is to see it fail."""
    if amount > BALANCE:
        fail(f"There are only {BALANCE} in the account; {amount - BALANCE} are missing.", balance=BALANCE)
    return f"Here are {amount}."


@tool(name="crash-on-purpose")
async def crash() -> str:
    """Raise an error nobody expected: the caller gets its name, the log gets the place."""
    return str(1 / (BALANCE - 100))
