"""Balances in cents. They are kept while the server runs. Each account begins with the same amount."""

from collections import defaultdict
from typing import NamedTuple

FIRST_AMOUNT = 100_00


class Payment(NamedTuple):
    """Entry of the history."""

    sender: str
    receiver: str
    amount: int
    token: str
    """Id of the token of the payment."""


balances: defaultdict[str, int] = defaultdict(lambda: FIRST_AMOUNT)
payments: list[Payment] = []


def account_of(claims: dict[str, object]) -> str:
    """Return the account of a token: its address, or else its subject. Each claim is a text, empty if it is
    missing.
    """
    return str(claims["address"] or claims["sub"])
