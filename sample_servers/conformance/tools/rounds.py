"""Questions in several rounds: one after another, at once, and only those that the client can answer."""

import asyncio
from collections.abc import Mapping
from typing import Any

from forms import ask_text, form

from mcpdesk import Context, message, prompt, tool


@tool(name="test_input_required_result_elicitation")
async def ask_name(ctx: Context) -> str:
    """Ask for a name and greet."""
    return f"Hello, {await ask_text(ctx, 'What is your name?', 'name', 'user_name')}!"


@tool(name="test_input_required_result_sampling")
async def ask_model(ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")).text


@tool(name="test_input_required_result_list_roots")
async def ask_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    roots = await ctx.list_roots(key="client_roots")
    return f"{len(roots)} roots: {', '.join(root.uri for root in roots)}"


@tool(name="test_input_required_result_request_state")
async def ask_with_state(ctx: Context) -> str:
    """Ask for a confirmation. The state between the rounds is signed and verified for every handler."""
    answer = await ctx.elicit("Please confirm.", form("ok", "boolean"), key="confirm")
    return f"state-ok, and the answer was {answer.action}"


@tool(name="test_input_required_result_multiple_inputs")
async def ask_at_once(ctx: Context) -> str:
    """Ask three questions in one round."""
    name, greeting, roots = await asyncio.gather(
        ask_text(ctx, "What is your name?", "name", "user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.list_roots(key="client_roots"),
    )
    return f"{greeting.text} {name}, you have {len(roots)} roots."


@tool(name="test_input_required_result_multi_round")
async def ask_in_turn(ctx: Context) -> str:
    """Ask a question, then another one."""
    name = await ask_text(ctx, "Step 1: What is your name?", "name", "step1")
    color = await ask_text(ctx, "Step 2: What is your favorite color?", "color", "step2")
    return f"Hello {name}, {color} is a fine color."


@tool(name="test_input_required_result_tampered_state")
async def ask_and_check(ctx: Context) -> str:
    """Ask for a confirmation. A request with a changed state is refused before the call."""
    answer = await ctx.elicit("Please confirm.", form("ok", "boolean"), key="confirm")
    return f"The state arrived as it was sent, and the answer was {answer.action}."


@tool(name="test_input_required_result_capabilities")
async def ask_supported_questions(ctx: Context) -> str:
    """Ask all questions that the client declares it can answer."""
    questions: Mapping[str, Any] = {
        "sampling": lambda: ctx.sample("Say something.", max_tokens=10, key="sample"),
        "elicitation": lambda: ctx.elicit("Please confirm.", form("ok", "boolean"), key="confirm"),
        "roots": lambda: ctx.list_roots(key="roots"),
    }
    supported_names = [name for name in questions if ctx.offers({name: {}})]
    await asyncio.gather(*(questions[name]() for name in supported_names))
    return f"Answered: {', '.join(supported_names) or 'nothing, because the client supports no questions'}"


@prompt(name="test_input_required_result_prompt")
async def ask_for_context(ctx: Context) -> list[dict[str, Any]]:
    """A prompt that asks for its context first."""
    context = await ask_text(ctx, "What context should the prompt use?", "context", "user_context")
    return [message(f"Use this context: {context}")]
