"""Approval of one call of a client. The call waits until the person at the desk decides."""

from __future__ import annotations

from typing import Any

from mcpdesk.errors import StorageError
from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.server.asks.approval_policies import Approvals
from mcpdesk.server.asks.person_questions import DeskQuestion
from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool

MAX_VALUE_LENGTH = 20_000
"""Maximum number of characters that are shown of each value."""
MAX_TEXT_LENGTH = 24_000
"""Maximum number of characters that are shown of all arguments together."""
NOTE_LENGTH = 60
"""Approximate number of characters in the note that replaces omitted text. A text is cut only if more
characters than this would be omitted.
"""
MAX_ITEMS = 200
MAX_DEPTH = 12


async def wait_for_approval(
    server: Server,
    services: Services,
    call: Call,
    tool: Tool,
    arguments: JSONObject,
    approvals: Approvals,
) -> str:
    """Wait for a decision. Return the reason for a denial, or "" if the call may run.

    Raises: CancelledError if the call ended before the decision.
    """
    early_decision = await decide_without_question(server, services, call, tool, approvals)
    if early_decision is not None:
        return early_decision
    peer = approval_peer(call)
    context = Context(server, services, call, tool.name)
    masked = services.mask(shortened(arguments), tool.input_schema)
    desk_question = DeskQuestion(
        context, call, services, (_page(call, tool, argument_text(masked)),), QuestionKind.APPROVAL
    )
    approvals.waiting_calls[desk_question.number] = (tool.name, peer)
    try:
        question = await desk_question.answer()
    finally:
        del approvals.waiting_calls[desk_question.number]
    if question.answers and question.answers[0].selected == (Approval.ALWAYS,):
        try:
            await approvals.grant(tool.name, peer)
        except StorageError as error:
            _log_storage_error(server, services, call, tool, error)
        _approve_waiting_calls(services, approvals, tool.name, peer)
    return _denial_reason(tool, question)


async def decide_without_question(
    server: Server, services: Services, call: Call, tool: Tool, approvals: Approvals
) -> str | None:
    """Decide without a question if possible.

    Return the reason for a denial, "" if the call may run, or None if a person must be asked.
    """
    try:
        # Another process may have stored a decision in the meantime.
        await approvals.load()
    except StorageError as error:
        _log_storage_error(server, services, call, tool, error)
    if approvals.allows(tool.name) or approvals.is_granted(tool.name, approval_peer(call)):
        return ""
    if refusal := approvals.refusal(tool.name):
        return refusal
    return None if services.inbox.people else _no_person_message(server, tool, approvals)


def _log_storage_error(
    server: Server, services: Services, call: Call, tool: Tool, error: StorageError
) -> None:
    services.log(
        "error",
        tool.name,
        f"permanent approvals cannot be read or stored: {error}",
        "",
        server.name,
        call.trace.id,
    )


def approval_peer(call: Call) -> str:
    """Return the name under which a permanent approval is stored.

    This is the subject of a verified token, or else the name that the client has sent. Prefixes keep the two
    apart, whatever name a client chooses.
    """
    claims = call.claims or {}
    subject = claims.get("sub")
    if isinstance(subject, str) and subject:
        return f"token:{subject} of {claims.get('iss', 'no issuer')}"
    return f"client:{call.peer}"


def _approve_waiting_calls(services: Services, approvals: Approvals, tool: str, peer: str) -> None:
    """Approve the waiting calls of the same tool and peer, so that the person need not answer for each of
    them.
    """
    for number, tool_and_peer in list(approvals.waiting_calls.items()):
        if tool_and_peer == (tool, peer):
            services.inbox.answer(number, (Answer((Approval.ONCE,)),), by="the approval for this peer")


def _page(call: Call, tool: Tool, detail: str) -> Page:
    """Return the page that asks a person to approve a call."""
    kind, _, name = approval_peer(call).partition(":")
    approved_clients = f"clients called {name}" if kind == "client" else f"clients with the token of {name}"
    hints = tool.annotations
    return Page(
        f"May {call.peer or 'a client without a name'} call {tool.name}?",
        "destructive" if hints.get("destructiveHint") else "approval",
        (
            Option(Approval.ONCE, "this call, and ask again at the next"),
            Option(Approval.ALWAYS, f"{tool.name} for {approved_clients}"),
            Option(Approval.DENY, "asks for a reason to send to the client"),
        ),
        own_words=False,
        detail=detail,
    )


def _denial_reason(tool: Tool, question: Question) -> str:
    """Return the reason why a call was denied, or "" if a person approved it."""
    reason_suffix = f": {question.reason}" if question.reason else ""
    limit_s = round(question.deadline - question.asked)
    match question.state:
        case QuestionState.ANSWERED:
            is_denied = question.answers[0].selected == (Approval.DENY,)
            return f"The person at the desk denied this call of {tool.name}." if is_denied else ""
        case QuestionState.TIMED_OUT:
            return f"{tool.name} needs approval at the desk, but no person answered within {limit_s} s."
        case QuestionState.WITHDRAWN:
            return f"The request for approval of {tool.name} was withdrawn{reason_suffix}."
        case _:
            return f"The person at the desk denied this call of {tool.name}{reason_suffix}."


def _no_person_message(server: Server, tool: Tool, approvals: Approvals) -> str:
    origin = approvals.effective_policy(tool.name).origin
    return (
        f"{tool.name} needs the approval of a person (policy ask, {origin}), and no desk is open. Run "
        f"`mcpdesk {server.folder or 'FOLDER'}` in a terminal and call again (or open the "
        f"dashboard of a running one in a browser), or allow it on the desk with p, "
        f'or with "approvals": {{"{tool.name}": "allow"}} in mcp.json.'
    )


def shortened(value: Any, depth: int = 0) -> Any:
    """Return a copy of a JSON value that is short enough for a person to review. Notes replace the omitted
    parts.
    """
    if isinstance(value, str):
        return _without_middle(value, MAX_VALUE_LENGTH)
    if isinstance(value, list | dict) and depth >= MAX_DEPTH:
        return f"… {len(value)} more inside" if value else value
    if isinstance(value, list):
        items = [shortened(each, depth + 1) for each in value[:MAX_ITEMS]]
        return items if len(value) <= MAX_ITEMS else [*items, f"… {len(value) - MAX_ITEMS:,} more"]
    if isinstance(value, dict):
        names = list(value)
        short_object = {
            _without_middle(name, 200): shortened(value[name], depth + 1) for name in names[:MAX_ITEMS]
        }
        if len(names) > MAX_ITEMS:
            short_object["…"] = f"{len(names) - MAX_ITEMS:,} more"
        return short_object
    return value


def argument_text(arguments: JSONObject) -> str:
    """Return the arguments as text, one line for each argument.

    The lines of a value with several lines follow below its name and are indented.
    """
    if not arguments:
        return "without arguments"
    lines = [f"{_name_text(name)}:{_value_text(value)}" for name, value in arguments.items()]
    return _without_middle("\n".join(lines), MAX_TEXT_LENGTH)


def _name_text(name: str) -> str:
    import json

    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _value_text(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    text = _without_middle(text, MAX_VALUE_LENGTH)
    return f" {text}" if "\n" not in text else "\n" + "\n".join(f"    {line}" for line in text.split("\n"))


def _without_middle(text: str, limit: int) -> str:
    """Omit the middle of a long text. The end stays, because the end of a command can be its most dangerous
    part.
    """
    if len(text) <= limit + NOTE_LENGTH:
        return text
    tail_length = limit // 4
    head, tail = text[: limit - tail_length], text[-tail_length:]
    return f"{head}\n… {len(text) - limit:,} characters are not shown …\n{tail}"
