"""What answers the requests that run hosted code or take their time, tools aside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

from mcpdesk.auth.principal import until_expired
from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.jobs.job import Job
from mcpdesk.protocol import codec, content, shaping, task_shapes
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.methods import check_uri
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY
from mcpdesk.protocol.uri_template import match
from mcpdesk.server.background.protocol_tasks import ProtocolTasks
from mcpdesk.server.calls.context import make_context
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.calls.subscriptions import LIST_CHANGED, Subscriber, check_count
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.prompts import Prompt, messages_of
from mcpdesk.server.offer.resources import Reader
from mcpdesk.server.offer.server import Server

T = TypeVar("T")


class Handlers:
    """Those of one server."""

    def __init__(
        self, server: Server, services: Services, offers: OfferListing, tasks: ProtocolTasks
    ) -> None:
        self._server = server
        self._services = services
        self._offers = offers
        self._tasks = tasks

    async def read_resource(self, call: Call) -> JSONObject:
        """The contents behind a URI."""
        from mcpdesk.server.calls.handlers import read_resource

        return await self._limited(read_resource(self._server, self._services, call), call)

    async def complete(self, call: Call) -> JSONObject:
        """What could follow what was typed of an argument."""
        from mcpdesk.server.calls.argument_completion import complete

        return await self._limited(complete(self._server, self._services, call), call)

    async def get_prompt(self, call: Call) -> JSONObject:
        """The messages of a prompt."""
        name = call.params["name"]
        prompt = self._server.prompts.get(name)
        if prompt is None:
            raise invalid_params(f"Unknown prompt: {name[:120]}{self._server.prompts.suggestion(name)}")
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
        context = await make_context(self._server, self._services, call, prompt.name)
        return await prompt.renderer(arguments, context)

    async def _limited(self, work: Awaitable[T], call: Call) -> T:
        return await self._services.deadlines.run(work, call, self._server.limits.tool_timeout_s)

    async def listen(self, call: Call) -> JSONObject:
        """Tell of changes until somebody ends it."""
        asked = call.params["notifications"]
        told = {key for kind, (key, _) in LIST_CHANGED.items() if self._offers.tells(kind)}
        wanted = frozenset(key for key in told if asked.get(key) is True)
        uris = asked.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise invalid_params("notifications.resourceSubscriptions must be a list of URIs")
        check_count(len(uris), self._server.limits.subscriptions)
        for uri in uris:
            check_uri(uri, "notifications.resourceSubscriptions")
        watched = self._tasks.watched(call, asked)
        honoured: JSONObject = dict.fromkeys(sorted(wanted), True)
        if uris:
            honoured["resourceSubscriptions"] = uris
        if watched:
            honoured["taskIds"] = [job.id for job in watched]
        tag = {SUBSCRIPTION_KEY: call.id}
        params = {"_meta": tag, "notifications": honoured}
        call.outlet.send(codec.notification("notifications/subscriptions/acknowledged", params))
        server, send = self._server, call.outlet.send
        subscriber = Subscriber(server.name, send, set(uris), wanted, call.id, server.mode)
        subscriptions = self._services.subscriptions
        subscriptions.add(subscriber)
        with ExitStack() as stack:
            stack.callback(subscriptions.remove, subscriber)
            for job in watched:
                stack.callback(self._tell_of(job, call.outlet.send, tag))
            async with until_expired(call.principal):
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
            send(codec.notification(task_shapes.EXTENSION_STATUS, self._tasks.detailed(job) | {"_meta": tag}))

        tell()
        return job.listen(tell)


class _Found(NamedTuple):
    reader: Reader
    uri: str
    variables: dict[str, str]
    mime_type: str


async def read_resource(server: Server, services: Services, call: Call) -> JSONObject:
    """The ReadResourceResult.

    Raises: RemoteProtocolError with the revision's code when nothing is there, or its reader returns None.
    """
    uri = call.params["uri"]
    found = _find(server, uri)
    if found is not None:
        context = await make_context(server, services, call, found.uri)
        output = await found.reader(found.uri, found.variables, context)
        if output is not None:
            return {"contents": _contents(found, output, call.terms.revision)}
    code = call.terms.revision.resource_not_found
    raise RemoteProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri})


def _find(server: Server, uri: str) -> _Found | None:
    resource = server.resources.get(uri)
    if resource is None:
        resource = next((each for each in server.resources if each.path and each.path == uri), None)
    if resource is not None:
        return _Found(resource.reader, resource.uri, {}, resource.mime_type)
    for template in server.templates:
        variables = match(template.uri_template, uri)
        if variables is not None:
            return _Found(template.reader, uri, variables, template.mime_type)
    return None


def _contents(found: _Found, output: Any, revision: Revision) -> list[JSONObject]:
    if isinstance(output, list) and output and all(_is_entry(each) for each in output):
        for number, each in enumerate(output, 1):
            try:
                content.check_contents(each)
            except ValueError as error:
                reason = f"Reading {found.uri[:200]} gave what are no contents: entry {number}: {error}"
                raise ProtocolError(ErrorCode.INTERNAL_ERROR, reason) from None
        return [shaping.contents(each, revision) for each in output]
    if isinstance(output, str | bytes):
        return [content.contents(found.uri, output, found.mime_type)]
    text = codec.encode(output).decode()
    return [content.contents(found.uri, text, found.mime_type or "application/json")]


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and "uri" in value and ("text" in value or "blob" in value)
