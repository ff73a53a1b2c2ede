"""A tool without authorization: callers need no token."""

from typing import Literal

from mcpdesk import tool

RATES = {"EUR": 1.0, "USD": 1.09, "CHF": 0.94, "JPY": 171.0}


@tool(read_only=True)
async def convert(cents: int, currency: Literal["EUR", "USD", "CHF", "JPY"] = "USD") -> str:
    """Convert an amount of euro cents to another currency, at the rates of this sample.

    Args:
        cents: Amount in whole euro cents.
        currency: Currency of the result.
    """
    return f"{cents / 100:.2f} EUR = {cents / 100 * RATES[currency]:.2f} {currency}"
