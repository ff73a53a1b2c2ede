"""Users of the sample. Tools import this file as `directory`. If you save it, the tools that use it are
loaded again.
"""

from dataclasses import dataclass


@dataclass
class Person:
    """Entry of the directory."""

    name: str
    email: str
    role: str


PEOPLE = {
    "123": Person("Ada Lovelace", "ada@example.org", "analyst"),
    "124": Person("Grace Hopper", "grace@example.org", "admiral"),
    "125": Person("Alan Turing", "alan@example.org", "logician"),
}
