"""Look up a user's profile."""

from typing import Any

from directory import PEOPLE

from mcpdesk import fail

DESCRIPTION = "Look up a user by id. The answer also has the user who sent the request."

# A module with its own schemas instead of type hints defines these names and a `handler`.
# The file gives the tool its name: user-profile.
INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "userId": {
            "type": "string",
            "description": "Id of the user, such as 123. Default: the user who sent the request.",
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
            "description": "Value of the header x-user-id, or empty.",
        },
        "requestId": {
            "type": "string",
            "description": "Value of the header x-request-id, or empty.",
        },
    },
    "required": ["userId", "name", "email", "role", "requestedBy", "requestId"],
}
ANNOTATIONS = {"readOnlyHint": True, "idempotentHint": True}


async def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return a profile. `context` is the result of `create_context` in context.py for this request."""
    user_id = args.get("userId", context.user_id)
    person = PEOPLE.get(user_id)
    if person is None:
        fail(f"User {user_id!r} does not exist; use one of {', '.join(PEOPLE)}.", userId=user_id)
    return {
        "userId": user_id,
        "name": person.name,
        "email": person.email,
        "role": person.role,
        "requestedBy": context.user_id,
        "requestId": context.request_id,
    }
