"""Where questions for a person go: to the desk, to the calling client, or to both at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.errors import ClientError, HandlerError
from mcpdesk.inbox.question import Page, Question
from mcpdesk.protocol.client_features import FORM
from mcpdesk.server.ask_client import ask_client

if TYPE_CHECKING:
    from mcpdesk.server.context import Context


async def ask_in_order(pages: Sequence[Page], context: Context) -> Question:
    """The set in its final state, as the setting `ask_order` wants it asked.

    Raises: HandlerError when nobody can be asked, or the only one who could be refuses.
    """
    pages = tuple(pages)
    order, has_desk = context.options.ask_order, bool(context.audience)
    # A form for the desk is a question of the desk: asking both would be asking twice.
    has_client = not context.is_desk and context.offers(FORM)
    if has_desk and has_client and order == "both":
        return await _ask_both(pages, context)
    if has_client and (order == "client-first" or not has_desk):
        try:
            return await _ask_only_client(pages, context)
        except ClientError:
            if not has_desk:
                raise
    if has_desk:
        return await context.ask_desk(pages)
    target = context.folder or "FOLDER"
    raise HandlerError(
        f"Nobody can answer: no desk is open. Run `mcpdesk {target}` in a terminal, or open the dashboard "
        "of a running one in a browser, then ask again; a client that offers elicitation can answer, too."
    )


async def _ask_only_client(pages: tuple[Page, ...], context: Context) -> Question:
    question = await ask_client(pages, context)
    context.keep_asked(question)
    return question


async def _ask_both(pages: tuple[Page, ...], context: Context) -> Question:
    client_aio = asyncio.create_task(ask_client(pages, context))
    try:
        # A client that came back with its answer has it at hand: then nobody else need be disturbed.
        await asyncio.sleep(0)
        if client_aio.done() and client_aio.exception() is None:
            return client_aio.result()
        return await context.ask_desk(pages, elsewhere=client_aio)
    finally:
        client_aio.cancel()
        await asyncio.gather(client_aio, return_exceptions=True)
