"""Stop 1: a tool is an `async def`. The form on the desk is made from its type hints and its docstring."""

from typing import Annotated, Literal


async def greet(
    name: Annotated[str, "Name of the person to greet."],
    language: Literal["english", "german", "spanish", "japanese"] = "english",
    loudly: bool = False,
) -> str:
    """Greet a person.

    Args:
        language: Language of the greeting.
        loudly: True to greet in capital letters.
    """
    greeting = f"{HELLO[language]}, {name}!"
    return greeting.upper() if loudly else greeting


HELLO = {"english": "Hello", "german": "Hallo", "spanish": "Hola", "japanese": "こんにちは"}
