"""Forms with one field, and their answers. Other files import this file as `forms`."""

from typing import Any

from mcpdesk import Context, fail


def form(name: str, kind: str = "string") -> dict[str, Any]:
    """Return a form with one required field."""
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


async def ask_text(ctx: Context, question: str, name: str, key: str) -> str:
    """Ask a person to fill in a form with one field, and return the text. Without a text, the call fails."""
    answer = await ctx.elicit(question, form(name), key=key)
    if not answer.accepted:
        fail(f"The call cannot continue: the answer was {answer.action}.")
    return str(answer.content[name])
