"""Method to handler, and the only place where hosted code's exceptions become answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from mcpdesk.errors import LocalProtocolError, MissingCapability, ProtocolError, RemoteProtocolError
from mcpdesk.jobs.job import Job
from mcpdesk.protocol import codec, shaping, tasks
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.methods import METHODS, Method
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY
from mcpdesk.protocol.terms import Terms
from mcpdesk.server import outcome
from mcpdesk.server.call import Call
from mcpdesk.server.context import make_context
from mcpdesk.server.direct import DirectCalls
from mcpdesk.server.hosted import run_hosted
from mcpdesk.server.offers import Offers
from mcpdesk.server.prompt import Prompt, messages_of
from mcpdesk.server.server import Server
from mcpdesk.server.services import Services
from mcpdesk.server.subscriptions import LIST_CHANGED, Subscriber, check_uris
from mcpdesk.server.tasks import Tasks
from mcpdesk.server.tool_call import ToolCalls

Run = Callable[[Call], Awaitable[JSONObject]]
T = TypeVar("T")


class Dispatcher:
    """Answers the requests of one server. Conversations hand it what the protocol has already checked."""

    def __init__(self, server: Server, services: Services) -> None:
        self.server = server
        self.services = services
        self.offers = Offers(server)
        self.tasks = Tasks(server, services, self.offers, self.refused)
        self.tool_calls = ToolCalls(server, services, self.tasks)
        self.direct = DirectCalls(self)
        self._runs: dict[str, Run] = {
            "tools/call": self.tool_calls.run,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "subscriptions/listen": self._listen,
            "tasks/get": self.tasks.get,
            "tasks/update": self.tasks.update,
            "tasks/cancel": self.tasks.cancel,
            "tasks/result": self.tasks.result,
            "tasks/list": self.tasks.listed,
        }
        for registry in (server.tools, server.resources, server.templates, server.prompts):
            registry.subscribe(self._changed)

    def admit(self, method: str, params: JSONObject, revision: Revision) -> Method:
        """Refuse what can be refused without running anything.

        Raises: RemoteProtocolError (-32601, -32602).
        """
        row = METHODS.get(method)
        if row is None or not row.serves(revision):
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, f"Method not found: {method[:80]}")
        if row.capability and not self.offers.is_offered(row.capability):
            reason = f"Method not found: {method} needs the {row.capability} capability, which is not offered"
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, reason)
        for name, kind in row.param_types:
            if not isinstance(params.get(name), kind):
                raise invalid_params(f"{method} needs params.{name} ({kind.__name__})")
        return row

    def immediate(self, row: Method, params: JSONObject, terms: Terms) -> bytes | None:
        """The encoded result of a method that runs no handler; None when `run` must be awaited."""
        if row.list_key:
            cursor = params.get("cursor")
            if cursor is not None and not isinstance(cursor, str):
                raise invalid_params("cursor must be a string")
            return self.offers.page(row.name, terms.revision, cursor)
        if row.name == "server/discover":
            return self._encoded(row.name, self.offers.discover_result(terms.revision), terms)
        return None

    async def run(self, call: Call) -> bytes:
        """Run the handler behind a request and return the encoded result.

        Raises: ProtocolError for what is a JSON-RPC error; CancelledError when the call was ended.
        """
        call.check_token(self.server.access.requires_token, self.server.access.scopes)
        return await self.encoded(call, self._run(call))

    async def encoded(self, call: Call, work: Awaitable[JSONObject]) -> bytes:
        """The encoded result of what answers a request. Raises: as `run`."""
        try:
            body = await work
        except ProtocolError:
            raise
        except Exception as error:  # readers and renderers are hosted code
            raise self.refused(call, error) from error
        return self.encode(call, body)

    def encode(self, call: Call, body: JSONObject) -> bytes:
        """A result as a request gets it; a tool's that is no JSON is put into words.

        Raises: LocalProtocolError for any other.
        """
        try:
            return self._encoded(call.method, body, call.terms)
        except LocalProtocolError as error:
            if call.method != "tools/call":
                raise
            told = f"{call.params['name']} returned what cannot be sent: {error.message}"
            return self._encoded(call.method, self.tool_calls.sorry(told), call.terms)

    async def _run(self, call: Call) -> JSONObject:
        work = self._runs[call.method]
        rounds = self.services.rounds
        if not rounds.may_need(call):
            if "task" in call.params and self._is_to_be_task(call):
                return await rounds.run_departing(call, work, self.services.deadlines)
            return await work(call)
        if call.method == "tools/call":
            # Later rounds go on with a handler that runs already, but their headers count as much.
            self.tool_calls.admit(call)
        parked_s = self.server.limits.question_timeout_s
        return await rounds.run(self.server.name, call, work, self.services.deadlines, parked_s)

    def _is_to_be_task(self, call: Call) -> bool:
        if call.method != "tools/call" or call.terms.revision.is_stateless:
            return False
        return self.tasks.is_asked_for(call, self.tool_calls.admit(call)[0])

    def refused(self, call: Call, error: Exception) -> ProtocolError:
        """The error an exception of hosted code comes to."""
        if isinstance(error, ProtocolError):
            return error
        if isinstance(error, MissingCapability):
            return _uncapable(error, call.terms.revision)
        self._log_failure(call, error)
        reason = f"Internal error in {call.method}: {outcome.described(error)}"
        return ProtocolError(ErrorCode.INTERNAL_ERROR, reason)

    def _encoded(self, method: str, body: JSONObject, terms: Terms) -> bytes:
        identity = self.offers.implementation(terms.revision)
        return codec.encode_part(shaping.result(method, body, terms.revision, identity))

    async def _read_resource(self, call: Call) -> JSONObject:
        from mcpdesk.server.reading import read_resource

        return await self._limited(read_resource(self.server, self.services, call), call)

    async def _complete(self, call: Call) -> JSONObject:
        from mcpdesk.server.completion import complete

        return await self._limited(complete(self.server, self.services, call), call)

    async def _get_prompt(self, call: Call) -> JSONObject:
        name = call.params["name"]
        prompt = self.server.prompts.get(name)
        if prompt is None:
            raise invalid_params(f"Unknown prompt: {name[:120]}")
        arguments = call.params.get("arguments")
        arguments = {} if arguments is None else arguments
        if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
            raise invalid_params("arguments must be an object of strings")
        for argument in prompt.arguments:
            if argument.required and argument.name not in arguments:
                raise invalid_params(f"Prompt {name} needs the argument {argument.name!r}")
        rendered = await self._limited(self._rendered(prompt, arguments, call), call)
        body: JSONObject = {"messages": messages_of(name, rendered)}
        if prompt.description:
            body["description"] = prompt.description
        return shaping.prompt_result(body, call.terms.revision)

    async def _rendered(self, prompt: Prompt, arguments: dict[str, str], call: Call) -> Any:
        context = await make_context(self.server, self.services, call, prompt.name)
        return await prompt.renderer(arguments, context)

    async def _limited(self, work: Awaitable[T], call: Call) -> T:
        return await run_hosted(work, call, self.services.deadlines, self.server.limits.tool_timeout_s)

    async def _listen(self, call: Call) -> JSONObject:
        asked = call.params["notifications"]
        wanted = frozenset(key for key in self._announced() if asked.get(key) is True)
        uris = asked.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise invalid_params("notifications.resourceSubscriptions must be a list of URIs")
        check_uris(uris, self.server.limits.subscriptions)
        watched = self.tasks.watched(call, asked)
        honoured: JSONObject = dict.fromkeys(sorted(wanted), True)
        if uris:
            honoured["resourceSubscriptions"] = uris
        if watched:
            honoured["taskIds"] = [job.id for job in watched]
        tag = {SUBSCRIPTION_KEY: call.id}
        params = {"_meta": tag, "notifications": honoured}
        call.outlet.send(codec.notification("notifications/subscriptions/acknowledged", params))
        server, send = self.server, call.outlet.send
        subscriber = Subscriber(server.name, send, set(uris), wanted, call.id, server.mode)
        subscriptions = self.services.subscriptions
        subscriptions.add(subscriber)
        with ExitStack() as stack:
            stack.callback(subscriptions.remove, subscriber)
            for job in watched:
                stack.callback(self._tell_of(job, call.outlet.send, tag))
            await subscriptions.until_closed()
        if call.headers is None:
            # Pages of the specification differ in what ends it where streams share a channel: both do. Right
            # behind the result, because clients take a cancellation that comes first for a failure.
            over = codec.notification("notifications/cancelled", {"requestId": call.id})
            asyncio.get_running_loop().call_soon(call.outlet.send, over)
        return {"_meta": tag}

    def _tell_of(self, job: Job, send: Callable[[bytes], None], tag: JSONObject) -> Callable[[], None]:
        """Tell a listener how a task stands, now and whenever that changes; what is returned ends it."""

        def tell() -> None:
            send(codec.notification(tasks.EXTENSION_STATUS, self.tasks.detailed(job) | {"_meta": tag}))

        tell()
        return job.listen(tell)

    def _announced(self) -> frozenset[str]:
        """The filter keys of the lists whose changes are told."""
        return frozenset(key for kind, (key, _) in LIST_CHANGED.items() if self._is_announced(kind))

    def _is_announced(self, kind: str) -> bool:
        return kind != "tool" or self.offers.is_offered("tools")

    def _changed(self, kind: str) -> None:
        if self._is_announced(kind):
            self.services.subscriptions.list_changed(self.server.name, kind, self.server.mode)

    def _log_failure(self, call: Call, error: BaseException) -> None:
        text, where = outcome.author_lines(error, self.server.folder)
        self.services.log("error", call.method, text, where, self.server.name, call.trace.id)


def _uncapable(error: MissingCapability, revision: Revision) -> ProtocolError:
    """What a request gets whose handler needed more than the client offers."""
    if revision.is_stateless:
        data = {"requiredCapabilities": error.required}
        return RemoteProtocolError(ErrorCode.MISSING_CAPABILITY, error.message, data)
    return ProtocolError(ErrorCode.INTERNAL_ERROR, error.message)
