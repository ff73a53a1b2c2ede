"""Stop 4: a question for a person. It appears on the desk, and the tool waits for the answer."""

from mcpdesk import Context, Option, Page, fail


async def order_tea(ctx: Context) -> str:
    """Order a cup of tea. The tool asks a person which one."""
    question = await ctx.ask(
        [
            Page(
                "Which tea would you like?",
                header="Tea",
                options=(
                    Option("Assam", "strong, with malt"),
                    Option("Sencha", "green and fresh"),
                    Option("Peppermint", "no caffeine"),
                ),
            ),
            Page(
                "What goes into it?",
                header="Extras",
                options=(Option("Milk"), Option("Sugar"), Option("Lemon")),
                multi_select=True,
            ),
        ]
    )
    if not question.answers:
        fail(f"No tea today: the question was {question.state}.", reason=question.reason)
    tea, extras = ([*answer.selected, *filter(None, [answer.other])] for answer in question.answers)
    return f"One {', '.join(tea) or 'surprise'} with {' and '.join(extras) or 'nothing'}, coming up."
