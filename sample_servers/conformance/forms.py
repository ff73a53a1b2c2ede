"""Forms with one field, and what a person fills in. Other files import this one as `forms`."""

from typing import Any

from mcpdesk import Context, fail


def form(name: str, kind: str = "string") -> dict[str, Any]:
    """A form with one field that has to be filled in."""
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


async def filled(ctx: Context, question: str, name: str, key: str) -> str:
    """The text a person fills in; without one the handler fails."""
    answer = await ctx.elicit(question, form(name), key=key)
    if not answer.accepted:
        fail(f"Nothing to go on with: the answer was {answer.action}.")
    return str(answer.content[name])
