"""Everybody we know. Tools import it as `directory`; saving this file reloads the tools that use it."""

from dataclasses import dataclass


@dataclass
class Person:
    """One entry."""

    name: str
    email: str
    role: str


PEOPLE = {
    "123": Person("Ada Lovelace", "ada@example.org", "analyst"),
    "124": Person("Grace Hopper", "grace@example.org", "admiral"),
    "125": Person("Alan Turing", "alan@example.org", "logician"),
}
