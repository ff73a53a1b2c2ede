"""A decision that only a person can make. The tool waits until the question is answered."""

from mcpdesk import Context, Option, Page, fail


async def choose_tea(ctx: Context) -> str:
    """Ask a person which tea to make, on the desk or in the client."""
    options = (Option("Assam", "strong, with malt"), Option("Sencha", "green and fresh"))
    question = await ctx.ask([Page("Which tea would you like?", header="Tea", options=options)])
    if not question.answers:
        fail(f"No tea: the question was {question.state}.", reason=question.reason)
    answer = question.answers[0]
    return f"A cup of {', '.join([*answer.selected, *filter(None, [answer.other])]) or 'something'}."
