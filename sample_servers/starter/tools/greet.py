"""A tool is a function. Clients see its type hints and its docstring."""

from typing import Annotated, Literal

from mcpdesk import tool

HELLO = {"english": "Hello", "german": "Hallo", "spanish": "Hola"}


@tool(title="Greet", read_only=True, idempotent=True, open_world=False)
async def greet(
    name: Annotated[str, "Name of the person to greet."],
    language: Annotated[Literal["english", "german", "spanish"], "Language of the greeting."] = "english",
) -> str:
    """Greet a person by name."""
    return f"{HELLO[language]}, {name}!"
