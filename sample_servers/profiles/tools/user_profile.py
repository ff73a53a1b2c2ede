"""Look up a user's profile."""

from typing import Any

from directory import PEOPLE

from mcpdesk import fail

DESCRIPTION = "Look up one user by id. The answer also says who asked."

# With schemas of your own instead of type hints a module exports these names and a `handler`.
# The tool is called after the file: user-profile.
INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "userId": {
            "type": "string",
            "description": "The user's id, such as 123. Without it the caller's own profile is meant.",
            "examples": ["123"],
        }
    },
    "additionalProperties": False,
}
OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "userId": {"type": "string"},
        "name": {"type": "string"},
        "email": {"type": "string"},
        "role": {"type": "string"},
        "requestedBy": {
            "type": "string",
            "description": "From the header x-user-id; empty if it was not sent.",
        },
        "requestId": {
            "type": "string",
            "description": "From the header x-request-id; empty if it was not sent.",
        },
    },
    "required": ["userId", "name", "email", "role", "requestedBy", "requestId"],
}
ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True}


async def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """`context` is what `create_context` in context.py returned for this request."""
    user_id = args.get("userId", context.user_id)
    person = PEOPLE.get(user_id)
    if person is None:
        fail(f"There is no user {user_id!r}; known are {', '.join(PEOPLE)}.", userId=user_id)
    return {
        "userId": user_id,
        "name": person.name,
        "email": person.email,
        "role": person.role,
        "requestedBy": context.user_id,
        "requestId": context.request_id,
    }
