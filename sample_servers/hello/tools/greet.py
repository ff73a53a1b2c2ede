"""Stop 1: a tool is an `async def`. Its hints and its docstring are the form you fill in."""

from typing import Annotated, Literal


async def greet(
    name: Annotated[str, "Who is to be greeted."],
    language: Literal["english", "german", "spanish", "japanese"] = "english",
    loudly: bool = False,
) -> str:
    """Greet somebody.

    Args:
        language: The language to greet in.
        loudly: Whether to shout.
    """
    greeting = f"{HELLO[language]}, {name}!"
    return greeting.upper() if loudly else greeting


HELLO = {"english": "Hello", "german": "Hallo", "spanish": "Hola", "japanese": "こんにちは"}
