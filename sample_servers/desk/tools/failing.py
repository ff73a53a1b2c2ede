"""Two ways to fail. `fail()` ends a handler with a message for a person or a model, and with data."""

from typing import Annotated

from mcpdesk import Meta, fail, tool

BALANCE = 100


@tool(name="withdraw-cash", destructive=True)
async def withdraw(
    amount: Annotated[int, Meta(ge=1, description="Amount. The account has 100.")],
) -> str:
    """Withdraw money from an account with 100, which never changes. A larger amount fails."""
    if amount > BALANCE:
        fail(f"The account has only {BALANCE}; {amount - BALANCE} are missing.", balance=BALANCE)
    return f"Here are {amount}."


@tool(name="crash-on-purpose")
async def crash() -> str:
    """Raise an unexpected error. The caller receives its name, and the log its location."""
    return str(1 / (BALANCE - 100))
