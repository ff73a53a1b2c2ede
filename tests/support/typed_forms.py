"""Tools whose forms are classes: clean for strict mypy and pyright, and hosted by a test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, assert_type

from msgspec import Meta
from pydantic import BaseModel, Field

from mcpdesk import Accepted, Cancelled, Context, Declined, Elicited, SyncContext, tool


class Meal(Enum):
    SOUP = "soup"
    CAKE = "cake"


@dataclass
class Booking:
    day: date
    row: Annotated[int, Meta(gt=0)]
    meal: Meal = Meal.SOUP
    comfort: Literal["first", "second"] = "second"
    note: str | None = None


class Colour(TypedDict):
    colour: str


class Guest(BaseModel):
    name: str = Field(min_length=2)
    age: int = 30


@dataclass
class Nested:
    booking: Booking


@tool
async def book(ctx: Context) -> str:
    """Book a seat."""
    answer = await ctx.elicit("Which seat?", Booking)
    assert_type(answer, Elicited[Booking])
    if answer.action != "accept":
        assert_type(answer.content, None)
        return answer.action
    assert_type(answer.content, Booking)
    booking = answer.content
    return f"{booking.day:%A} {booking.row + 1} {booking.meal.name} {booking.comfort} {booking.note}"


@tool
async def greet(ctx: Context) -> str:
    """Greet a guest."""
    match await ctx.elicit("Who?", Guest):
        case Accepted(guest):
            return f"{type(guest).__name__} {guest.name.upper()} {guest.age}"
        case Declined():
            return "declined"
        case Cancelled():
            return "cancelled"


@tool
def paint(ctx: SyncContext) -> str:
    """Choose a colour."""
    answer = ctx.elicit("Which colour?", Colour)
    assert_type(answer, Elicited[Colour])
    return answer.content["colour"] if answer.action == "accept" else answer.action


@tool
def free(ctx: SyncContext) -> str:
    """Fill what a schema says."""
    answer = ctx.elicit("Which?", {"type": "object", "properties": {"letter": {"type": "string"}}})
    assert_type(answer, Elicited[dict[str, Any]])
    return f"{answer.content}"


@tool
async def nested(ctx: Context) -> str:
    """Ask what no form can show."""
    return (await ctx.elicit("What?", Nested)).action
