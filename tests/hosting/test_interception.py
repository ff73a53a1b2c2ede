"""The interceptors of several features see the messages of one core, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from mcpdesk.auth.principal import Principal
from mcpdesk.feature import Feature
from mcpdesk.hosting import interception
from mcpdesk.hosting.interception import interceptor_for
from mcpdesk.link.feature_part import FeaturePart, Intent
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.outlet import Answer, Outlet
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.interceptor import Accept, GiveAnswer, InterceptedCore, Interceptor, MessageQueue
from tests.support.messages import text_of
from tests.support.served import Peer

CALL: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}


class Knock(Intent[str], frozen=True):
    """Request to the first interceptor."""


class Ring(Intent[str], frozen=True):
    """Request to the second interceptor."""


class Unknown(Intent[str], frozen=True):
    """Request to no interceptor."""


class Door(FeaturePart, frozen=True):
    """State of the first interceptor."""

    part_name = "door"
    intents = (Knock,)


class Bell(FeaturePart, frozen=True):
    """State of the second interceptor."""

    part_name = "bell"
    intents = (Ring,)


class Stamp(Interceptor):
    """Appends its name to each message. It can drop or answer requests, and keep messages of a server."""

    def __init__(self, core: InterceptedCore, name: str, part: FeaturePart) -> None:
        self.core, self.name, self._part = core, name, part
        self.is_on, self.must_drop = True, False
        self.given: JSONObject | None = None
        self.queue: StampedQueue | None = None
        self.forgotten: list[int] = []
        self.is_closed = self.is_reset = False
        self.left = asyncio.Event()

    @property
    def is_active(self) -> bool:
        return self.is_on

    @property
    def needs_answers(self) -> bool:
        return True

    @property
    def parts(self) -> Sequence[FeaturePart]:
        return (self._part,)

    def do(self, intent: Intent[Any]) -> str:
        return f"{type(intent).__name__} by {self.name}"

    def reset(self) -> None:
        self.is_reset = True

    def wrap_handler(self, connection: int, plain: Accept) -> Accept:
        def accept(
            message: Any,
            outlet: Outlet,
            headers: Mapping[str, str] | None = None,
            principal: Principal | None = None,
        ) -> Answer:
            if self.is_active and message.get("method") == "tools/call":
                arguments = message["params"]["arguments"]
                text = arguments["text"] + self.name
                message["params"]["arguments"] = arguments | {"text": text}
            return plain(message, outlet, headers, principal)

        return accept

    async def request(
        self, connection: int, message: JSONObject, in_session: bool = False
    ) -> tuple[JSONObject | None, JSONObject | None]:
        if self.must_drop or self.given is not None:
            return None, self.given
        return self._stamped(message), None

    async def answer(
        self, connection: int, request: JSONObject, arrival: float, answer: JSONObject
    ) -> JSONObject | None:
        return None if self.must_drop else self._stamped(answer)

    async def one_way(self, connection: int, message: JSONObject) -> JSONObject | None:
        return None if self.must_drop else self._stamped(message)

    async def sent(
        self, connection: int, data: bytes, answer: GiveAnswer, of: Id | None = None
    ) -> bytes | None:
        return None if self.must_drop else data + self.name.encode()

    def open_queue(
        self, connection: int, deliver: Callable[[bytes], object], answer: GiveAnswer, of: Id | None = None
    ) -> MessageQueue:
        self.queue = StampedQueue(self.name, deliver)
        return self.queue

    async def wait_until_disconnected(self, connection: int) -> None:
        await self.left.wait()

    def forget(self, connection: int) -> None:
        self.forgotten.append(connection)
        self.left.set()
        self.left.clear()

    def close(self) -> None:
        self.is_closed = True

    def _stamped(self, message: JSONObject) -> JSONObject:
        return message | {"seen": message.get("seen", "") + self.name}


class StampedQueue(MessageQueue):
    """Keeps messages until they are released, and appends a name to them."""

    def __init__(self, name: str, deliver: Callable[[bytes], object]) -> None:
        super().__init__(deliver)
        self.name, self.kept = name.encode(), list[bytes]()

    @property
    def has_messages(self) -> bool:
        return bool(self.kept)

    def put(self, message: bytes) -> None:
        self.kept.append(message)

    async def wait_until_empty(self) -> None:
        for message in self.kept:
            self._deliver(message + self.name)
        self.kept.clear()

    def close(self) -> list[bytes]:
        kept, self.kept = self.kept, []
        return kept


class StampFeature(Feature):
    """Feature with an interceptor."""

    def __init__(self, name: str, part: FeaturePart) -> None:
        self.name, self.part = name, part
        self.made: list[Stamp] = []

    def interceptor(self, core: InterceptedCore) -> Interceptor:
        self.made.append(Stamp(core, self.name, self.part))
        return self.made[-1]


Made = tuple[Interceptor, Stamp, Stamp]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The interceptor of a core with two features that have one, and their own interceptors."""
    features = (StampFeature("A", Door()), Feature(), StampFeature("B", Bell()))
    monkeypatch.setattr(interception, "features_with", lambda member: iter(features))
    interceptor = interceptor_for(InterceptedCore(Recording(None), lambda text: None))
    first, second = (each.made[0] for each in features if isinstance(each, StampFeature))
    return interceptor, first, second


async def nowhere(answer: JSONObject) -> None:
    raise AssertionError("no answer is due")


async def test_messages_of_a_client_pass_the_first_and_those_of_a_server_the_last_one_first(
    made: Made,
) -> None:
    interceptor, _, second = made
    assert interceptor.is_active and interceptor.needs_answers
    assert await interceptor.request(1, CALL) == (CALL | {"seen": "AB"}, None)
    assert await interceptor.answer(1, CALL, 0.0, {"id": 1}) == {"id": 1, "seen": "BA"}
    assert await interceptor.one_way(1, {"method": "a"}) == {"method": "a", "seen": "AB"}
    assert await interceptor.sent(1, b"x", nowhere) == b"xBA"
    second.is_on = False
    assert await interceptor.request(1, CALL) == (CALL | {"seen": "A"}, None)
    assert await interceptor.sent(1, b"x", nowhere) == b"xA"


async def test_a_hosted_server_receives_what_all_interceptors_made_of_a_call(made: Made) -> None:
    interceptor, first, second = made
    peer = Peer()
    peer.endpoint.intercept(interceptor)
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert text_of(await peer.response(1)) == "xAB"
    first.is_on = False
    peer.modern(2, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert text_of(await peer.response(2)) == "xB"
    second.is_on = False
    peer.endpoint.intercept(interceptor)
    peer.modern(3, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert text_of(await peer.response(3)) == "x"


async def test_what_one_drops_or_answers_does_not_reach_the_next(made: Made) -> None:
    interceptor, first, second = made
    first.given, second.must_drop = {"id": 1, "result": {}}, True
    assert await interceptor.request(1, CALL) == (None, {"id": 1, "result": {}})
    first.given = None
    assert await interceptor.request(1, CALL) == (None, None)
    assert await interceptor.answer(1, CALL, 0.0, {"id": 1}) is None
    assert await interceptor.one_way(1, {"method": "a"}) is None
    assert await interceptor.sent(1, b"x", nowhere) is None


async def test_queued_messages_of_a_server_keep_their_order(made: Made) -> None:
    interceptor, first, second = made
    delivered: list[bytes] = []
    queue = interceptor.open_queue(1, delivered.append, nowhere)
    assert first.queue is not None and second.queue is not None
    queue.put(b"1")
    assert second.queue.kept == [b"1"] and queue.has_messages
    second.is_on = False
    queue.put(b"2")  # must not overtake the first one
    await second.queue.wait_until_empty()
    queue.put(b"3")
    assert first.queue.kept == [b"1B", b"2B", b"3"] and delivered == []
    second.is_on = True
    queue.put(b"4")
    await queue.wait_until_empty()
    assert delivered == [b"1BA", b"2BA", b"3A", b"4BA"] and not queue.has_messages
    first.queue.put(b"5")
    queue.put(b"6")
    assert queue.close() == [b"5", b"6"] and not queue.has_messages


async def test_requests_of_front_ends_reach_the_interceptor_that_lists_them(made: Made) -> None:
    interceptor, *_ = made
    assert list(interceptor.parts) == [Door(), Bell()]
    assert interceptor.do(Knock()) == "Knock by A" and interceptor.do(Ring()) == "Ring by B"
    with pytest.raises(ValueError, match="lacks the feature"):
        interceptor.do(Unknown())


async def test_the_end_of_a_connection_and_of_the_core_reach_all(made: Made) -> None:
    interceptor, *both = made
    lost = asyncio.create_task(interceptor.wait_until_disconnected(7))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    interceptor.forget(7)
    await lost
    interceptor.reset()
    interceptor.close()
    assert all((each.forgotten, each.is_reset, each.is_closed) == ([7], True, True) for each in both)


def test_the_only_interceptor_is_used_without_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    only = StampFeature("A", Door())
    monkeypatch.setattr(interception, "features_with", lambda member: iter((Feature(), only)))
    assert interceptor_for(InterceptedCore(Recording(None), lambda text: None)) is only.made[0]
