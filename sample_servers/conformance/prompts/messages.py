"""Prompts. A text is one message of the user. `message(...)` takes any content and the role of its sender."""

from typing import Any

from media import PNG

from mcpdesk import embedded, image, message, prompt


@prompt(name="test_simple_prompt")
async def simple() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt(
    name="test_prompt_with_arguments", complete={"arg1": ["testValue1", "testing"], "arg2": ["testValue2"]}
)
async def with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First argument.
        arg2: Second argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt(name="test_prompt_with_embedded_resource")
async def with_embedded_resource(resourceUri: str) -> list[dict[str, Any]]:
    """A prompt that contains a resource.

    Args:
        resourceUri: URI of the resource.
    """
    return [
        message(embedded(resourceUri, "Embedded resource content for testing.", "text/plain")),
        message("Please process the embedded resource above."),
    ]


@prompt(name="test_prompt_with_image")
async def with_image() -> list[dict[str, Any]]:
    """A prompt that contains a picture."""
    return [message(image(PNG, "image/png")), message("Please analyze the image above.")]
