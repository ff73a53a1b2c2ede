"""Who has how much, in cents, while the server runs. Everybody begins with the same amount."""

from collections import defaultdict
from typing import NamedTuple

FIRST_AMOUNT = 100_00


class Payment(NamedTuple):
    """One line of the history."""

    sender: str
    receiver: str
    amount: int
    token: str
    """The id of the token it was made with."""


balances: defaultdict[str, int] = defaultdict(lambda: FIRST_AMOUNT)
payments: list[Payment] = []


def account_of(claims: dict[str, object]) -> str:
    """Whose account a token opens: its address, or its subject. Both are always texts, empty if unknown."""
    return str(claims["address"] or claims["sub"])
