"""Tools and prompts that are added and removed. An item with `offered=False` is not listed until a handler
offers it.
"""

from mcpdesk import Context, prompt, tool


@tool(name="test_dynamic_tool", offered=False)
async def dynamic_tool() -> str:
    """A tool that is listed only for a moment."""
    return "Still here"


@prompt(name="test_dynamic_prompt", offered=False)
async def dynamic_prompt() -> str:
    """A prompt that is listed only for a moment."""
    return "Are you still here?"


@tool(name="test_trigger_tool_change")
async def trigger_tool_change(ctx: Context) -> str:
    """Offer another tool and withdraw it. Subscribed clients are notified of both changes."""
    tools = ctx.server.tools
    tools.offer("test_dynamic_tool")
    tools.withdraw("test_dynamic_tool")
    return "The list of tools changed"


@tool(name="test_trigger_prompt_change")
async def trigger_prompt_change(ctx: Context) -> str:
    """Offer another prompt and withdraw it. Subscribed clients are notified of both changes."""
    prompts = ctx.server.prompts
    prompts.offer("test_dynamic_prompt")
    prompts.withdraw("test_dynamic_prompt")
    return "The list of prompts changed"
