"""A form with every kind of field: nested objects, lists, choices, switches, limits and defaults."""

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal

from mcpdesk import Meta, tool


class Pace(Enum):
    """Number of activities in a day."""

    RELAXED = "relaxed"
    STEADY = "steady"
    PACKED = "packed"


@dataclass
class Traveller:
    """Person on the trip.

    Attributes:
        name: Name in the passport.
        age: Age in years.
        diet: Food that the person eats.
    """

    name: str
    age: Annotated[int, Meta(ge=0, le=120)] = 30
    diet: Literal["everything", "vegetarian", "vegan"] = "everything"


@dataclass
class Budget:
    """Maximum cost of the trip.

    Attributes:
        amount: Amount in whole units of the currency.
        currency: Code of three letters.
    """

    amount: Annotated[int, Meta(ge=0)] = 1500
    currency: Annotated[str, Meta(pattern="^[A-Z]{3}$")] = "EUR"


DEFAULT_BUDGET = Budget()
Interest = Literal["food", "museums", "nature", "music", "nightlife"]


@dataclass
class Plan:
    """Plan of a trip."""

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
    budget: Budget = DEFAULT_BUDGET,
    with_children: bool = False,
    notes: str = "",
) -> Plan:
    """Plan a trip. The plan is simple, but the form has every kind of field.

    Args:
        destination: City or region.
        days: Number of days.
        start: First day. Default: any day.
        pace: Number of activities in a day.
        interests: Any number of themes.
        travellers: Persons on the trip.
        budget: Maximum cost for all persons together.
        with_children: True if children are on the trip.
        notes: Other wishes.
    """
    first_day = start or datetime.date(2027, 5, 1)
    themes = interests or ("food",)
    evening = "an early night" if with_children or pace is Pace.RELAXED else "a walk by night"
    lines = [
        f"{first_day + datetime.timedelta(days=day):%a %d %b}: {themes[day % len(themes)]}, then {evening}"
        for day in range(days)
    ]
    people = max(1, len(travellers))
    headline = f"{days} days in {destination} for {people}" + (f" ({notes})" if notes else "")
    return Plan(headline, lines, round(budget.amount / people, 2))
