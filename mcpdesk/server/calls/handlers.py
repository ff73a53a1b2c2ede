"""Handlers of requests for resources, completions and prompts, and of `subscriptions/listen`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sized
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcpdesk.auth.principal import until_expired
from mcpdesk.errors import LocalProtocolError, ProtocolError
from mcpdesk.protocol import codec, content, shaping, task_shapes
from mcpdesk.protocol.catalogue.uri_template import match, parsed_template
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.methods import check_uri
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY
from mcpdesk.server.background.protocol_tasks import ProtocolTasks
from mcpdesk.server.calls.context import Context, make_context
from mcpdesk.server.calls.outcomes import plain_value
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.calls.subscriptions import LIST_CHANGED, Subscriber, check_count, resource_not_found
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.prompts import Prompt, messages_of
from mcpdesk.server.offer.resource_lookup import FoundResource, find_resource
from mcpdesk.server.offer.resources import Completer
from mcpdesk.server.offer.server import Server

if TYPE_CHECKING:
    from mcpdesk.server.offer.resources import ResourceTemplate

T = TypeVar("T")
MAX_SUGGESTIONS = 100
"""Maximum number of values in a response to `completion/complete`."""


class Handlers:
    """Answers requests that run the author's code or stay open, except tool calls."""

    def __init__(
        self, server: Server, services: Services, offers: OfferListing, tasks: ProtocolTasks
    ) -> None:
        self._server = server
        self._services = services
        self._offers = offers
        self._tasks = tasks

    async def read_resource(self, call: Call) -> JSONObject:
        """Read a resource by its URI or by the path of its file.

        Raises: RemoteProtocolError, with the code of the revision, if the resource does not exist or has no
        content.
        """
        uri = call.params["uri"]
        resource = find_resource(self._server, uri)
        if resource is not None:
            output = await self._run_limited(self._read(resource, call), call)
            if output is not None:
                return {"contents": _contents(resource, output, call.terms.revision)}
        raise resource_not_found(uri, call.terms.revision)

    async def _read(self, resource: FoundResource, call: Call) -> Any:
        context = await make_context(self._server, self._services, call, resource.uri)
        return await self._invoke(
            resource.is_folder_code,
            lambda handler_context: resource.reader(resource.uri, resource.variables, handler_context),
            context,
        )

    async def complete(self, call: Call) -> JSONObject:
        """Return suggestions for an argument. The list is empty if the argument has no completer.

        Raises: RemoteProtocolError (-32602) for an unknown reference or argument, or invalid parameters.
        """
        target = _target(self._server, call.params["ref"])
        name, typed_text = call.params["argument"].get("name"), call.params["argument"].get("value")
        if not isinstance(name, str) or not isinstance(typed_text, str):
            raise invalid_params("argument needs a name and a value, both strings")
        if name not in target.arguments:
            raise invalid_params(f"{target.name[:120]} has no argument {name[:80]!r}")
        other_arguments = _context_arguments(call) if call.terms.revision.has_completion_context else {}
        completer = target.completers.get(name)
        if completer is None:
            return {"completion": {"values": [], "total": 0, "hasMore": False}}
        suggestions = self._suggestions(completer, typed_text, other_arguments, target, call)
        return {"completion": await self._run_limited(suggestions, call)}

    async def _suggestions(
        self,
        completer: Completer,
        typed_text: str,
        other_arguments: dict[str, str],
        target: _Target,
        call: Call,
    ) -> JSONObject:
        context = await make_context(self._server, self._services, call, target.name)
        suggestions = await self._invoke(
            target.is_folder_code,
            lambda handler_context: completer(typed_text, other_arguments, handler_context),
            context,
        )
        return _completion_page(suggestions)

    async def get_prompt(self, call: Call) -> JSONObject:
        """Return the messages of a prompt."""
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
        output = await self._run_limited(self._render(prompt, arguments, call), call)
        body: JSONObject = {"messages": messages_of(name, output)}
        if prompt.description:
            body["description"] = prompt.description
        return shaping.prompt_result(body, call.terms.revision)

    async def _render(self, prompt: Prompt, arguments: dict[str, str], call: Call) -> Any:
        context = await make_context(self._server, self._services, call, prompt.name)
        return await self._invoke(
            prompt.is_folder_code,
            lambda handler_context: prompt.renderer(arguments, handler_context),
            context,
        )

    def _invoke(
        self, is_folder_code: bool, work: Callable[[Context], Awaitable[T]], context: Context
    ) -> Awaitable[T]:
        from mcpdesk.server.calls.threads.loop_context import invoke  # slow to import

        return invoke(self._server, is_folder_code, work, context)

    async def _run_limited(self, work: Awaitable[T], call: Call) -> T:
        try:
            return await self._services.deadlines.run(work, call, self._server.limits.tool_timeout_s)
        except (asyncio.CancelledError, TimeoutError):
            self._services.log_running_code(call, call.method, self._server.name)
            raise

    async def listen(self, call: Call) -> JSONObject:
        """Send notifications of changes until the request ends.

        The acknowledgement lists only known resources. Raises: RemoteProtocolError for invalid filters, or if
        only resources are requested and all of them are unknown.
        """
        filters = call.params["notifications"]
        offered_keys = {key for kind, (key, _) in LIST_CHANGED.items() if self._offers.announces(kind)}
        list_keys = frozenset(key for key in offered_keys if filters.get(key) is True)
        uris = filters.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise invalid_params("notifications.resourceSubscriptions must be a list of URIs")
        check_count(len(uris), self._server.limits.subscriptions)
        known_uris: list[str] = []
        for uri in uris:
            check_uri(uri, "notifications.resourceSubscriptions")
            if (resource := find_resource(self._server, uri)) is not None:
                known_uris.append(resource.uri)
        watched_tasks = await self._tasks.tasks_to_watch(call, filters)
        accepted_filters: JSONObject = dict.fromkeys(sorted(list_keys), True)
        if known_uris:
            accepted_filters["resourceSubscriptions"] = known_uris
        if watched_tasks:
            accepted_filters["taskIds"] = [job.id for job in watched_tasks]
        if uris and not accepted_filters:
            raise resource_not_found(uris[0], call.terms.revision)
        meta = {SUBSCRIPTION_KEY: call.id}
        params = {"_meta": meta, "notifications": accepted_filters}
        call.outlet.send(codec.notification("notifications/subscriptions/acknowledged", params))
        server, send = self._server, call.outlet.send
        subscriber = Subscriber(server.name, send, set(known_uris), list_keys, call.id, server.mode)
        subscriptions = self._services.subscriptions
        subscriptions.add(subscriber)
        with ExitStack() as stack:
            stack.callback(subscriptions.remove, subscriber)
            if watched_tasks:
                stack.enter_context(
                    self._tasks.watch(watched_tasks, partial(_report_task, call.outlet.send, meta))
                )
            async with until_expired(call.principal):
                await subscriptions.until_closed()
        if call.headers is None:
            # The specification names two messages that end a subscription on a shared channel, so both are
            # sent. The notification follows the result, because clients treat an earlier cancellation as a
            # failure.
            end_notification = codec.notification("notifications/cancelled", {"requestId": call.id})
            asyncio.get_running_loop().call_soon(call.outlet.send, end_notification)
        return {"_meta": meta}


def _report_task(send: Callable[[bytes], None], meta: JSONObject, task: JSONObject) -> None:
    """Notify a client with `subscriptions/listen` of the state of a task."""
    send(codec.notification(task_shapes.EXTENSION_STATUS, task | {"_meta": meta}))


def _contents(resource: FoundResource, output: Any, revision: Revision) -> list[JSONObject]:
    """Convert the output of a reader to contents objects. Raises: ProtocolError (-32603)."""
    if isinstance(output, list) and output and all(_is_entry(each) for each in output):
        for number, each in enumerate(output, 1):
            try:
                content.check_contents(each)
            except ValueError as error:
                reason = f"Reading {resource.uri[:200]} returned invalid contents: entry {number}: {error}"
                raise ProtocolError(ErrorCode.INTERNAL_ERROR, reason) from None
        return [shaping.contents(each, revision) for each in output]
    if isinstance(output, bytearray | memoryview):
        output = bytes(output)
    if isinstance(output, str | bytes):
        return [content.contents(resource.uri, output, resource.mime_type)]
    try:
        plain_output = plain_value(output)
        if isinstance(plain_output, str):  # the output is a path, for example
            return [content.contents(resource.uri, plain_output, resource.mime_type)]
        text = codec.encode(plain_output).decode()
    except (TypeError, ValueError, RecursionError, LocalProtocolError) as error:
        reason = f"Reading {resource.uri[:200]} returned something that is not JSON: {error}"
        raise ProtocolError(ErrorCode.INTERNAL_ERROR, reason) from None
    return [content.contents(resource.uri, text, resource.mime_type or "application/json")]


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and "uri" in value and ("text" in value or "blob" in value)


class _Target(NamedTuple):
    """Prompt or resource template whose arguments are completed."""

    name: str
    arguments: tuple[str, ...]
    completers: Mapping[str, Completer]
    is_folder_code: bool = False


def _target(server: Server, ref: JSONObject) -> _Target:
    finder = _TARGET_FINDERS.get(str(ref.get("type")))
    if finder is None:
        raise invalid_params(f"ref.type must be one of {', '.join(_TARGET_FINDERS)}")
    return finder(server, ref)


def _prompt_target(server: Server, ref: JSONObject) -> _Target:
    prompt = server.prompts.get(_string_member(ref, "name"))
    if prompt is None:
        raise invalid_params(f"Unknown prompt: {ref['name'][:120]}")
    names = tuple(each.name for each in prompt.arguments)
    return _Target(prompt.name, names, prompt.completers, prompt.is_folder_code)


def _resource_target(server: Server, ref: JSONObject) -> _Target:
    uri = _string_member(ref, "uri")
    check_uri(uri, "ref.uri")
    template = server.templates.get(uri) or _matching_template(server, uri)
    if template is not None:
        variables = parsed_template(template.uri_template).variables
        return _Target(template.name, variables, template.completers, template.is_folder_code)
    if server.resources.get(uri) is None:
        raise invalid_params(f"Unknown resource or template: {uri[:200]}")
    return _Target(uri, (), {})


def _matching_template(server: Server, uri: str) -> ResourceTemplate | None:
    return next((each for each in server.templates if match(each.uri_template, uri) is not None), None)


def _string_member(ref: JSONObject, key: str) -> str:
    value = ref.get(key)
    if not isinstance(value, str):
        raise invalid_params(f"ref.{key} must be a string")
    return value


def _context_arguments(call: Call) -> dict[str, str]:
    """Return the arguments that the caller has already filled in."""
    context: Any = call.params.get("context") or {}
    arguments = (context.get("arguments") or {}) if isinstance(context, dict) else None
    if not isinstance(arguments, dict) or not all(isinstance(each, str) for each in arguments.values()):
        raise invalid_params("context.arguments must be an object of strings")
    return arguments


def _completion_page(suggestions: Iterable[str]) -> JSONObject:
    values = [str(each) for each in islice(suggestions, MAX_SUGGESTIONS + 1)]
    total = len(suggestions) if isinstance(suggestions, Sized) else len(values)
    page: JSONObject = {"values": values[:MAX_SUGGESTIONS], "hasMore": len(values) > MAX_SUGGESTIONS}
    # An iterator may be endless. Only a collection has a known size.
    return page if page["hasMore"] and not isinstance(suggestions, Sized) else page | {"total": total}


_TARGET_FINDERS: dict[str, Callable[[Server, JSONObject], _Target]] = {
    "ref/prompt": _prompt_target,
    "ref/resource": _resource_target,
}
