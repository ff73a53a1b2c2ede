"""Results of tools: a text, every kind of content, and an error."""

from typing import Any

from media import PNG, WAV

from mcpdesk import audio, embedded, fail, image, text, tool


@tool(name="test_simple_text", read_only=True)
async def simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@tool(name="test_image_content", read_only=True)
async def image_content() -> Any:
    """Answer with a picture."""
    return image(PNG, "image/png")


@tool(name="test_audio_content", read_only=True)
async def audio_content() -> Any:
    """Answer with a sound."""
    return audio(WAV, "audio/wav")


@tool(name="test_embedded_resource", read_only=True)
async def embedded_resource() -> Any:
    """Answer with the contents of a resource."""
    return embedded("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(name="test_multiple_content_types", read_only=True)
async def multiple_content_types() -> list[Any]:
    """Answer with a text, a picture and a resource."""
    return [
        text("Multiple content types test:"),
        image(PNG, "image/png"),
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@tool(name="test_error_handling", read_only=True)
async def error_handling() -> str:
    """Fail with a text for the model."""
    fail("This tool intentionally returns an error for testing")
