"""A tool is a function: its type hints and its docstring are what clients see of it."""

from typing import Annotated, Literal

from mcpdesk import tool

HELLO = {"english": "Hello", "german": "Hallo", "spanish": "Hola"}


@tool(title="Greet", read_only=True, idempotent=True, open_world=False)
async def greet(
    name: Annotated[str, "Who is to be greeted."],
    language: Annotated[Literal["english", "german", "spanish"], "The language to greet in."] = "english",
) -> str:
    """Greet somebody by name."""
    return f"{HELLO[language]}, {name}!"
