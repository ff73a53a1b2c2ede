"""Tools that run as tasks. A client that supports tasks receives a task at once, and then polls or listens.

A handler is the same with and without tasks: it waits, asks, and returns. A tool with `task="required"` can
only be called as a task. With `task="optional"`, clients without tasks wait for the result.
"""

import asyncio

from forms import ask_text

from mcpdesk import Context, fail, refuse, tool


@tool(name="greet")
async def greet(name: str) -> str:
    """Greet a person at once, without a task.

    Args:
        name: Name of the person to greet.
    """
    return f"Hello, {name}!"


@tool(name="slow_compute", task="optional", timeout=300)
async def slow_compute(ctx: Context, seconds: float = 1, label: str = "work") -> str:
    """Work for some seconds. Cancelling the task stops the work.

    Args:
        seconds: Duration in seconds.
        label: Name of the work.
    """
    await ctx.progress(0, seconds, f"computing {label}")
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@tool(name="failing_job", task="required")
async def failing_job() -> str:
    """Work for a second, then fail with a tool error."""
    await asyncio.sleep(1)
    fail("This job fails on purpose.")


@tool(name="protocol_error_job", task="optional")
async def protocol_error_job() -> str:
    """End with a protocol error instead of a result."""
    await asyncio.sleep(0.1)
    refuse("This job ends with an error on purpose.", data={"stage": "working"})


@tool(name="confirm_delete", task="optional")
async def confirm_delete(ctx: Context, filename: str = "notes.txt") -> str:
    """Ask for a confirmation. The task waits for the answer.

    Args:
        filename: Name of the file. This sample deletes nothing.
    """
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    answer = await ctx.elicit(f"Delete {filename}?", schema, key="confirm")
    agreed = answer.accepted and answer.content["confirm"]
    return f"{'Deleted' if agreed else 'Kept'} {filename}"


@tool(name="multi_input", task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two questions at once. They can be answered one by one."""
    name, other = await asyncio.gather(
        ask_text(ctx, "What is your name?", "name", "user_name"),
        ask_text(ctx, "And the name of your cat?", "name", "cat_name"),
    )
    return f"{name} lives with {other}."


@tool(name="test_tool_with_task", task="required", asks_first=True)
async def ask_then_work(ctx: Context) -> str:
    """Ask a question in the call, and become a task when it is answered."""
    name = await ask_text(ctx, "What is your name?", "name", "user_name")
    await ctx.become_task()
    await asyncio.sleep(0.1)
    return f"Hello, {name}! The work is done."
