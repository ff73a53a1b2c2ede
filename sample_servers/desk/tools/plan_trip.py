"""A form with a bit of everything: nested objects, lists, choices, switches, limits and defaults."""

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

from mcpdesk import Meta, tool


class Pace(Enum):
    """How much happens in a day."""

    RELAXED = "relaxed"
    STEADY = "steady"
    PACKED = "packed"


@dataclass
class Traveller:
    """Somebody who comes along.

    Attributes:
        name: As in the passport.
        age: In years.
        diet: What they eat.
    """

    name: str
    age: Annotated[int, Meta(ge=0, le=120)] = 30
    diet: Literal["everything", "vegetarian", "vegan"] = "everything"


@dataclass
class Budget:
    """What it may cost.

    Attributes:
        amount: In whole units of the currency.
        currency: A code of three letters.
    """

    amount: Annotated[int, Meta(ge=0)] = 1500
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"


USUAL = Budget()
Interest = Literal["food", "museums", "nature", "music", "nightlife"]


@dataclass
class Plan:
    """The plan as clients get it."""

    headline: str
    days: list[str]
    cost_per_person: float


@tool(title="Plan a trip", read_only=True)
async def plan_trip(
    destination: Annotated[str, Meta(min_length=2)],
    days: Annotated[int, Meta(ge=1, le=14)] = 3,
    start: datetime.date | None = None,
    pace: Pace = Pace.STEADY,
    interests: tuple[Interest, ...] = (),
    travellers: tuple[Traveller, ...] = (),
    budget: Budget = USUAL,
    with_children: bool = False,
    notes: str = "",
) -> Plan:
    """Plan a trip. The plan is not clever, but the form has every kind of field.

    Args:
        destination: A city or a region.
        days: How many days to stay.
        start: The first day; leave it out if it does not matter.
        pace: How much should happen.
        interests: Any number of these.
        travellers: Everybody who comes along.
        budget: For all of you together.
        with_children: Whether children come along.
        notes: Anything else.
    """
    first = start or datetime.date(2027, 5, 1)
    themes = interests or ("food",)
    evening = "an early night" if with_children or pace is Pace.RELAXED else "a walk by night"
    lines = [
        f"{first + datetime.timedelta(days=day):%a %d %b}: {themes[day % len(themes)]}, then {evening}"
        for day in range(days)
    ]
    people = max(1, len(travellers))
    headline = f"{days} days in {destination} for {people}" + (f" ({notes})" if notes else "")
    return Plan(headline, lines, round(budget.amount / people, 2))
