"""A tool that needs a secret variable. Without it, the tool is not offered, and the desk shows the reason."""

from directory import PEOPLE

from mcpdesk import fail, tool


@tool(requires_env="MAIL_TOKEN", destructive=False, open_world=True)
async def send_mail(user_id: str, subject: str, body: str) -> str:
    """Send a message to a user. This sample sends nothing.

    Args:
        user_id: Id of the user.
        subject: Subject, in one line.
        body: Text of the message.
    """
    person = PEOPLE.get(user_id)
    if person is None:
        fail(f"User {user_id!r} does not exist.")
    return f"Sent {subject!r} ({len(body)} characters) to {person.email}."
