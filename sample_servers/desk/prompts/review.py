"""A prompt made by code can contain several messages."""

from typing import Any, Literal

from mcpdesk import message, prompt


@prompt(title="Review a change")
async def review_change(diff: str, focus: Literal["bugs", "style", "tests"] = "bugs") -> list[dict[str, Any]]:
    """Start a review of a change.

    Args:
        diff: Change, as a unified diff.
        focus: Most important aspect: bugs, style or tests.
    """
    return [
        message(f"Here is a change. Look for {focus} first.\n\n```diff\n{diff}\n```"),
        message("I read it. Before I comment: what is the change meant to achieve?", role="assistant"),
    ]
