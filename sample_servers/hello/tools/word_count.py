"""Stop 2: a return type with fields gives structured output. Clients receive its schema with the list of
tools.
"""

from dataclasses import dataclass

from mcpdesk import tool


@dataclass
class Count:
    """Word count of a text.

    Attributes:
        words: Number of words, which white space separates.
        characters: Number of characters, including white space.
        longest: Longest word, or empty if the text has no words.
    """

    words: int
    characters: int
    longest: str


@tool(title="Count words", read_only=True, idempotent=True)
async def word_count(text: str) -> Count:
    """Count the words of a text.

    Args:
        text: Text to count.
    """
    words = text.split()
    return Count(len(words), len(text), max(words, key=len, default=""))
