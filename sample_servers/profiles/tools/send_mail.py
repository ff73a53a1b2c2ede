"""A tool that needs a secret. Without the variable it is not offered, and the desk shows why."""

from directory import PEOPLE

from mcpdesk import fail, tool


@tool(requires_env="MAIL_TOKEN", destructive=False, open_world=True)
async def send_mail(user_id: str, subject: str, body: str) -> str:
    """Send a message to a user (this sample only says that it did).

    Args:
        user_id: The user's id.
        subject: One line.
        body: The text.
    """
    person = PEOPLE.get(user_id)
    if person is None:
        fail(f"There is no user {user_id!r}.")
    return f"Sent {subject!r} ({len(body)} characters) to {person.email}."
