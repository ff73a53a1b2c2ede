"""Tools whose work outlives the call, as tasks. Clients that know tasks get one at once, and poll or listen.

The handler is the same with and without: it waits, asks, and returns. A tool with `task="required"` cannot be
called otherwise; with `task="optional"` everybody else waits for the answer.
"""

import asyncio

from forms import filled

from mcpdesk import Context, fail, refuse, tool


@tool(name="greet")
async def greet(name: str) -> str:
    """Greet at once: nothing here outlives the call.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"


@tool(name="slow_compute", task="optional", timeout=300)
async def slow_compute(ctx: Context, seconds: float = 1, label: str = "work") -> str:
    """Take a while; a cancelled task stops it.

    Args:
        seconds: How long it takes.
        label: What to call it.
    """
    await ctx.progress(0, seconds, f"computing {label}")
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@tool(name="failing_job", task="required")
async def failing_job() -> str:
    """Work for a second, then fail as tools do: with a result that says so."""
    await asyncio.sleep(1)
    fail("This job fails on purpose.")


@tool(name="protocol_error_job", task="optional")
async def protocol_error_job() -> str:
    """End with an error of the protocol instead of a result."""
    await asyncio.sleep(0.1)
    refuse("This job ends with an error on purpose.", data={"stage": "working"})


@tool(name="confirm_delete", task="optional")
async def confirm_delete(ctx: Context, filename: str = "notes.txt") -> str:
    """Ask once before it goes on; the task waits for the answer.

    Args:
        filename: What would be deleted.
    """
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    answer = await ctx.elicit(f"Delete {filename}?", schema, key="confirm")
    agreed = answer.accepted and answer.content["confirm"]
    return f"{'Deleted' if agreed else 'Kept'} {filename}"


@tool(name="multi_input", task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once; they may be answered one by one."""
    name, other = await asyncio.gather(
        filled(ctx, "What is your name?", "name", "user_name"),
        filled(ctx, "And the name of your cat?", "name", "cat_name"),
    )
    return f"{name} lives with {other}."


@tool(name="test_tool_with_task", task="required", asks_first=True)
async def ask_then_work(ctx: Context) -> str:
    """Ask in the call itself, and become a task with the answer."""
    name = await filled(ctx, "What is your name?", "name", "user_name")
    await ctx.become_task()
    await asyncio.sleep(0.1)
    return f"Hello, {name}! The work is done."
