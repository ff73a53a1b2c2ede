"""Requirements of the specification on a server: the checklists of the wire reference in our own words.

Numbers that are missing are duties of clients and hosts. A test proves a requirement by naming its id:
`@pytest.mark.requirement("2.1")`. One that is not met says why in `gap`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One duty of a server. `id` is checklist and number, `source` the pages that state it."""

    id: str
    source: str
    behaviour: str
    gap: str = ""
    """Reason no test proves it; empty if one does."""


REQUIREMENTS = (
    Requirement(
        "1.1", "2026-07-28:basic/versioning", "Metadata makes a request complete, even beside a session."
    ),
    Requirement(
        "1.2", "2026-07-28:basic/versioning", "A handshake settles its own session or pipe and nothing else."
    ),
    Requirement(
        "1.3",
        "2026-07-28:basic/versioning",
        "The error for an unserved version names the served versions and the requested one.",
    ),
    Requirement(
        "1.4",
        "2026-07-28:basic/versioning",
        "A server without handshakes names its versions in the error to `initialize`.",
        "every server has handshakes, too",
    ),
    Requirement("1.5", "2026-07-28:server/discover", "Discovery is always there in the stateless era."),
    Requirement(
        "1.10",
        "2025-11-25:basic/lifecycle",
        "A handshake gets the version it offers if served, else one that is.",
    ),
    Requirement(
        "1.11",
        "2025-11-25:basic/lifecycle",
        "Until the client is ready, it receives no requests and no change notifications.",
    ),
    Requirement(
        "1.12",
        "2025-11-25:basic/lifecycle, 2026-07-28:basic/index",
        "What was not declared is not used, and does not exist.",
    ),
    Requirement(
        "2.1",
        "2026-07-28:basic/index",
        "Ids are texts or whole numbers and come back as they were, type included.",
    ),
    Requirement("2.2", "all:basic/index", "A notification gets no answer, not even an error."),
    Requirement("2.3", "2025-03-26:basic/index", "One revision has batches, without a handshake in them."),
    Requirement("2.4", "2025-06-18:changelog", "Every other revision refuses arrays."),
    Requirement("2.5", "2026-07-28:basic/index", "Results of the stateless era name their type."),
    Requirement(
        "2.6",
        "2026-07-28:basic/index",
        "Metadata that lacks a required key is refused with 400; the client's name is optional.",
    ),
    Requirement(
        "2.7",
        "2026-07-28:basic/index",
        "A missing client capability is named as an object, with 400.",
    ),
    Requirement(
        "2.8",
        "2026-07-28:server/resources",
        "The stateless era has no separate error code for missing resources.",
    ),
    Requirement(
        "2.9", "2026-07-28:basic/index", "Of the reserved error codes only the three with a meaning are used."
    ),
    Requirement(
        "2.10",
        "2026-07-28:basic/transports/streamable-http",
        "Methods that do not exist in the stateless era are not found, with 404.",
    ),
    Requirement("2.11", "2026-07-28:basic/index", "Results of the stateless era name the server."),
    Requirement(
        "2.12", "2026-07-28:basic/index", "Nothing of an earlier request decides how a later one is served."
    ),
    Requirement(
        "3.1", "all:basic/transports", "Standard output carries messages, one per line, and nothing else."
    ),
    Requirement("3.3", "2026-07-28:basic/transports/stdio", "The end of standard input ends the process."),
    Requirement(
        "3.5", "2026-07-28:basic/transports/stdio", "In the stateless era the server asks nothing by itself."
    ),
    Requirement(
        "3.6",
        "2026-07-28:basic/patterns/cancellation",
        "After a cancellation, no further message about that request is sent.",
    ),
    Requirement("3.8", "all:basic/authorization", "Pipes do without keys and tokens."),
    Requirement(
        "4.2", "2025-11-25:basic/transports", "What needs no answer is accepted with 202 and no body."
    ),
    Requirement(
        "4.3", "2025-11-25:basic/transports", "A request is answered with JSON or with a stream of events."
    ),
    Requirement("4.4", "2025-11-25:basic/transports", "GET opens a stream or is not allowed."),
    Requirement("4.5", "2025-11-25:basic/transports", "A message travels on one stream only."),
    Requirement("4.6", "2025-11-25:basic/transports", "No answer to a POST appears on the standing stream."),
    Requirement("4.7", "2025-11-25:basic/transports", "Session ids are visible ASCII and cannot be guessed."),
    Requirement("4.8", "2025-11-25:basic/transports", "A session that ended is not found."),
    Requirement("4.9", "2025-11-25:basic/transports", "DELETE ends a session."),
    Requirement(
        "4.10",
        "2025-11-25:basic/transports",
        "Event ids are unique in a session and resume their own stream.",
    ),
    Requirement("4.12", "2025-11-25:basic/transports", "In a session, a lost connection cancels nothing."),
    Requirement(
        "4.13",
        "2025-11-25:basic/transports",
        "An unserved version header is refused with 400; none means the session's.",
    ),
    Requirement("4.14", "2025-11-25:basic/transports", "A foreign Origin is refused with 403."),
    Requirement(
        "4.15",
        "2024-11-05:basic/transports",
        "The oldest transport names its endpoint first.",
    ),
    Requirement("5.1", "2026-07-28:basic/transports/streamable-http", "POST only, and never a session id."),
    Requirement(
        "5.2",
        "2026-07-28:basic/transports/streamable-http",
        "Routing headers that are missing or disagree are refused with 400.",
    ),
    Requirement(
        "5.3", "2026-07-28:basic/transports/streamable-http", "Header names have no case, their values do."
    ),
    Requirement(
        "5.4",
        "2026-07-28:basic/transports/streamable-http",
        "Encoded header values are decoded first; malformed ones are a mismatch.",
    ),
    Requirement(
        "5.7",
        "2026-07-28:basic/transports/streamable-http",
        "A mirrored argument without its header is refused.",
    ),
    Requirement(
        "5.9",
        "2026-07-28:basic/transports/streamable-http",
        "A stream holds notifications of its request, then the answer.",
    ),
    Requirement(
        "5.10", "2026-07-28:basic/patterns/cancellation", "Without sessions, a lost connection cancels."
    ),
    Requirement("5.11", "2026-07-28:basic/transports/streamable-http", "Streams ask proxies not to buffer."),
    Requirement(
        "5.12",
        "2026-07-28:basic/patterns/subscriptions",
        "A listener is acknowledged first, gets what it asked for, and everything is tagged.",
    ),
    Requirement(
        "5.13", "2026-07-28:basic/transports/streamable-http", "A foreign Origin is refused with 403."
    ),
    Requirement(
        "5.14",
        "2026-07-28:server/tools, server/resources, server/prompts",
        "Lists are the same on every connection.",
    ),
    Requirement("6.1", "all:server/utilities/pagination", "A list continues while a next cursor is given."),
    Requirement("6.2", "all:server/utilities/completion", "A completion carries a hundred values at most."),
    Requirement(
        "6.3",
        "2025-11-25:server/tools, 2026-07-28:server/tools",
        "Failing tools and bad arguments are results; unknown tools are errors.",
    ),
    Requirement(
        "6.4", "2025-06-18:server/tools", "Structured output fits its schema and is repeated as text."
    ),
    Requirement(
        "6.5",
        "2025-11-25:server/resources, 2026-07-28:server/resources",
        "A missing resource is an error with the code of the revision.",
    ),
    Requirement(
        "6.6",
        "2026-07-28:server/utilities/logging",
        "Without sessions, log messages go to requests that want them only.",
    ),
    Requirement("6.7", "all:server/utilities/logging", "Unknown log levels are refused."),
    Requirement("6.8", "all:basic/utilities/progress", "Progress grows, and stops with the answer."),
    Requirement("6.10", "2026-07-28:server/tools", "Tools are listed in a stable order."),
    Requirement(
        "6.11",
        "2025-11-25:client/elicitation",
        "An empty elicitation capability means forms only.",
    ),
    Requirement("6.12", "2025-11-25:client/elicitation", "Forms ask for nothing sensitive."),
    Requirement("6.13", "2025-11-25:client/sampling", "Tool results in sampling are unmixed and balanced."),
    Requirement("6.15", "2025-11-25:basic/index", "Icons have addresses that clients will open."),
    Requirement("7.1", "2026-07-28:basic/patterns/mrtr", "Three methods may need more rounds, and no other."),
    Requirement("7.2", "2026-07-28:basic/patterns/mrtr", "What asks for input has questions or a state."),
    Requirement(
        "7.3",
        "2026-07-28:basic/patterns/mrtr",
        "Only what this request declares is asked for; else what is missing is named.",
    ),
    Requirement(
        "7.4", "2026-07-28:basic/patterns/mrtr", "A state that was changed, is foreign or too old is refused."
    ),
    Requirement(
        "7.6",
        "2026-07-28:basic/patterns/mrtr",
        "Missing answers are asked for again, strange ones ignored, misshapen ones refused.",
    ),
    Requirement(
        "7.9",
        "2026-07-28:basic/patterns/mrtr",
        "A state is bound to who asked for what, and to a time.",
    ),
    Requirement(
        "8.1",
        "2025-11-25:basic/utilities/tasks",
        "A call is a task if capability and tool allow it, and must be one if the tool requires it.",
    ),
    Requirement(
        "8.2",
        "2025-11-25:basic/utilities/tasks",
        "The request for a result waits, and gets what the call would have got, with the task named.",
    ),
    Requirement(
        "8.3",
        "2025-11-25:basic/utilities/tasks",
        "What is over never changes; a cancelled task stays cancelled and cannot be cancelled again.",
    ),
    Requirement(
        "8.4",
        "2025-11-25:basic/utilities/tasks, ext-tasks",
        "Tasks belong to who began them, and their ids cannot be guessed.",
    ),
    Requirement(
        "8.5",
        "ext-tasks",
        "A result of type task answers a call alone, and only a client that declares them.",
    ),
    Requirement("8.6", "ext-tasks", "A task can be read as soon as its id was sent."),
    Requirement("8.7", "ext-tasks", "A failing tool completes its task; an error of the protocol fails it."),
    Requirement("8.8", "ext-tasks", "Answers about tasks are complete, acknowledgements empty."),
    Requirement(
        "8.9",
        "ext-tasks",
        "Keys of questions are used once; answers may come in parts, strange ones are ignored.",
    ),
    Requirement(
        "8.10",
        "ext-tasks",
        "Without the extension its methods name what is missing; those of the other design do not exist.",
    ),
    Requirement("8.11", "ext-tasks", "A header repeats the id of the task."),
    Requirement(
        "9.1", "ext-apps", "A handler knows whether apps are shown, and says in words what others do not see."
    ),
    Requirement("9.2", "ext-apps", "The page of an app is a resource with its own scheme and type."),
    Requirement(
        "10.1",
        "2026-07-28:server/utilities/caching",
        "Six results say for how long and for whom they may be kept.",
    ),
    Requirement("10.2", "2026-07-28:server/utilities/caching", "All pages of a list may be kept alike."),
    Requirement(
        "10.3",
        "2026-07-28:server/utilities/caching",
        "What may differ between callers is kept by one.",
    ),
    Requirement("10.6", "2026-07-28:basic/index", "Trace context that is malformed counts as absent."),
    Requirement(
        "11.1",
        "2025-11-25:basic/authorization",
        "No token or a wrong one is answered with 401, one that lacks scope with 403.",
    ),
    Requirement(
        "11.2",
        "2025-06-18:basic/authorization",
        "Tokens for another audience are refused, and no token is passed on.",
    ),
    Requirement(
        "11.3",
        "2025-06-18:basic/authorization",
        "Metadata of the protected resource names who gives tokens.",
    ),
    Requirement(
        "11.12",
        "2025-03-26:basic/authorization",
        "Every request brings its token in a header, none in the URL.",
    ),
    Requirement("12.1", "all:basic/transports", "Foreign pages and names are refused unread."),
    Requirement("12.2", "all:basic/transports", "What can start programs asks for a key on TCP."),
    Requirement("12.3", "2025-11-25:security best practices", "Ids that open something cannot be guessed."),
    Requirement("12.4", "2026-07-28:basic/index", "Every request is checked on its own."),
    Requirement("12.5", "2025-11-25:security best practices", "Keys are not recorded."),
    Requirement(
        "12.6", "2026-07-28:basic/patterns/mrtr", "A state is signed, and refused in the same words always."
    ),
    Requirement(
        "12.7", "2026-07-28:basic/index", "Schemas fetch nothing, and are bounded in depth, size and time."
    ),
    Requirement(
        "12.8",
        "2025-11-25:security best practices",
        "Addresses that others name are not visited unchecked.",
        "a server fetches nothing by itself",
    ),
    Requirement("12.9", "2025-11-25:client/elicitation", "Links to open are of the web."),
    Requirement(
        "12.10", "2026-07-28:basic/transports/streamable-http", "A request with two readings is refused."
    ),
    Requirement("12.11", "2025-11-25:server/tools", "Sizes and numbers are limited, and a limit is named."),
    Requirement("12.12", "2025-11-25:server/resources", "Nothing outside the folder is read."),
    Requirement(
        "12.14",
        "2025-11-25:basic/transports",
        "Cursors and event ids that were not given to a caller open nothing.",
    ),
    Requirement("12.15", "2025-11-25:client/elicitation", "Secrets are typed on a page, never in a form."),
    Requirement("12.16", "2025-11-25:server/utilities/logging", "Errors carry no stack."),
    Requirement(
        "12.18",
        "2025-11-25:security best practices",
        "Who logs in elsewhere for a client has its consent first.",
        "no server logs in anywhere for its clients",
    ),
    Requirement(
        "12.19",
        "2025-11-25:server/tools",
        "Tools of several servers do not hide each other.",
        "each server has a separate endpoint; they are never merged",
    ),
    Requirement(
        "12.20", "all:basic/utilities/cancellation", "Late, unknown and repeated messages change nothing."
    ),
)
