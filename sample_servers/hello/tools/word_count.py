"""Stop 2: a return type with fields is structured output. Clients get its schema before they call."""

from dataclasses import dataclass

from mcpdesk import tool


@dataclass
class Count:
    """What was counted.

    Attributes:
        words: Words, separated by white space.
        characters: All characters, white space included.
        longest: The longest word; empty without words.
    """

    words: int
    characters: int
    longest: str


@tool(title="Count words", read_only=True, idempotent=True)
async def word_count(text: str) -> Count:
    """Count the words of a text.

    Args:
        text: Any text.
    """
    words = text.split()
    return Count(len(words), len(text), max(words, key=len, default=""))
