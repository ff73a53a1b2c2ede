"""Questions to the client: forms, sampling and roots. The handler waits for the client's answer.

The same code works in every protocol revision. In the stateless era, the answer arrives with the next
request, and the handler continues. `key` is the name of a question in the answers. Default: the kind of the
question.
"""

import asyncio
from dataclasses import dataclass

from forms import form

from mcpdesk import Context, tool


@dataclass
class Account:
    """Form as a class. Each field is a field of the form."""

    username: str
    email: str


@tool(name="test_elicitation")
async def elicitation(ctx: Context, message: str) -> str:
    """Ask for a user's name and e-mail address.

    Args:
        message: Text of the form.
    """
    answer = await ctx.elicit(message, Account)
    return f"User response: action={answer.action}, content={answer.content}"


@tool(name="test_elicitation_sep1034_defaults")
async def elicitation_defaults(ctx: Context) -> str:
    """Ask with a form whose fields have defaults."""
    states = ["active", "inactive", "pending"]
    fields = {
        "name": {"type": "string", "description": "A name.", "default": "John Doe"},
        "age": {"type": "integer", "description": "Years.", "default": 30},
        "score": {"type": "number", "description": "Any number.", "default": 95.5},
        "status": {"type": "string", "description": "One of three.", "enum": states, "default": "active"},
        "verified": {"type": "boolean", "description": "Yes or no.", "default": True},
    }
    answer = await ctx.elicit("Please check these values.", {"type": "object", "properties": fields})
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tool(name="test_elicitation_sep1330_enums")
async def elicitation_enums(ctx: Context) -> str:
    """Ask with a form that has every kind of choice."""
    titled = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
    plain = ["option1", "option2", "option3"]
    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option one", "Option two", "Option three"]}
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ctx.elicit("Please choose.", {"type": "object", "properties": fields})
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tool(name="test_sampling")
async def sampling(ctx: Context, prompt: str) -> str:
    """Send a prompt to the client's model.

    Args:
        prompt: Question for the model.
    """
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@tool(name="test_missing_capability")
async def missing_capability(ctx: Context) -> str:
    """Ask the client's model. A client without sampling receives an error with the missing capability."""
    return (await ctx.sample("Say something.", max_tokens=10)).text


@tool(name="test_streaming_elicitation")
async def streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    await ctx.progress(1, 2, "about to ask")
    await asyncio.sleep(0.01)
    answer = await ctx.elicit("May the tool continue?", form("ok", "boolean"), key="confirm")
    return f"Answered: {answer.action}"
