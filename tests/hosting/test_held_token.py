"""A token given to a dialogue sets its principal, by the server's own rules, until the token expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mcpdesk.auth.access import Access
from mcpdesk.auth.keys import CONSTANT, KeysMissing, KeySource, constant, secret_keys
from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.auth.tokens import TokenTerms, Verifier
from mcpdesk.hosting.held_token import EXPIRED, RULES_CHANGED, ClientToken, DialogueToken
from tests.support.patience import within
from tests.support.served import Peer
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, token

TERMS = TokenTerms(frozenset({"HS256"}), ISSUER, frozenset({AUDIENCE}))


def access(**more: Any) -> Access:
    keys = secret_keys(SECRET.encode(), TERMS.algorithms)
    return Access(verifier=Verifier(TERMS, KeySource(constant(keys), CONSTANT)), **more)


class Holder:
    """A dialogue of a guarded server, and the token it holds."""

    def __init__(self, guard: Access | None = None) -> None:
        self.peer = Peer()
        self.server = self.peer.server
        self.server.access = guard or access()
        self.dialogue = self.peer.channel.dialogue
        self.later_s = 0.0
        loop = asyncio.get_running_loop()

        def soon(function: Callable[[], object]) -> None:
            loop.call_soon(function)

        self.held = DialogueToken(
            lambda: self.server.access,
            self.dialogue.identify,
            soon,
            lambda: time.time() + self.later_s,
        )

    def client(self, report: Callable[[str], object]) -> ClientToken:
        return ClientToken(lambda: self.server.access, self.dialogue.identify, token("HS256"), report)

    @property
    def caller(self) -> str:
        return self.dialogue.conversation.principal.title

    async def give(self, text: str, *needs: str) -> tuple[str, ...]:
        async with within():
            return await asyncio.wrap_future(self.held.give(text, needs))


async def test_whoever_a_token_is_of_calls_until_it_is_taken_back() -> None:
    holder = Holder()
    assert holder.held.view() is None and holder.caller == ""
    assert await holder.give(token("HS256", scope="read")) == ()
    held = holder.held.view()
    assert held is not None and (held.name, held.scopes, held.ended) == ("ada", frozenset({"read"}), "")
    assert holder.caller == "token of ada"
    holder.held.drop()
    await asyncio.sleep(0)
    assert holder.held.view() is None
    assert holder.dialogue.conversation.principal is OPEN


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": 1}, "it has expired"),
        ({"iss": "https://other.example"}, "it is from another issuer"),
        ({"aud": "https://other.example"}, "it is for another audience"),
    ],
)
async def test_a_token_that_does_not_count_is_refused_with_the_reason(
    changes: dict[str, Any], why: str
) -> None:
    holder = Holder()
    with pytest.raises(ValueError, match=f"^{why}$"):
        await holder.give(token("HS256", **changes))
    with pytest.raises(ValueError, match="its signature matches no key"):
        await holder.give(token("HS256")[:-6] + "AAAAAA")
    with pytest.raises(ValueError, match="does not have the form of a token"):
        await holder.give("hello")
    assert holder.held.view() is None and holder.caller == ""


async def test_scopes_it_lacks_are_told_before_it_is_taken() -> None:
    holder = Holder()
    narrow = token("HS256", scope="read")
    assert await holder.give(narrow, "send", "read") == ("send",)
    assert holder.held.view() is None and holder.caller == ""
    assert await holder.give(narrow) == ()
    assert holder.caller == "token of ada"


async def test_what_every_request_needs_is_needed_by_the_token_itself() -> None:
    holder = Holder(access(requires_token=True, scopes=frozenset({"all"})))
    with pytest.raises(ValueError, match="it lacks the scope all, which every request here needs"):
        await holder.give(token("HS256", scope="read"))
    assert await holder.give(token("HS256", scope="all")) == ()


async def test_it_ends_when_it_expires() -> None:
    holder = Holder()
    await holder.give(token("HS256"))
    holder.later_s = 36_001.0
    held = holder.held.view()
    assert held is not None and (held.name, held.ended) == ("ada", EXPIRED)
    holder.held.apply()
    assert holder.caller == ""


async def test_it_ends_when_the_server_asks_something_else() -> None:
    holder = Holder()
    await holder.give(token("HS256"))
    holder.held.apply()
    assert holder.caller == "token of ada"
    holder.server.access = access()
    held = holder.held.view()
    assert held is not None and held.ended == RULES_CHANGED
    holder.held.apply()
    assert holder.caller == ""


async def test_a_server_that_looks_at_no_tokens_takes_none() -> None:
    with pytest.raises(ValueError, match="this server accepts no tokens"):
        await Holder(Access()).give(token("HS256"))


async def test_whoever_thinks_better_of_it_changes_nothing() -> None:
    holder = Holder()
    done = holder.held.give(token("HS256"))
    assert done.cancel()
    await holder.give(token("HS256", sub="eve"))
    assert holder.caller == "token of eve"
    left = holder.held.give(token("HS256"))
    await asyncio.sleep(0)
    holder.held.close()
    with pytest.raises(asyncio.CancelledError):
        async with within():
            await asyncio.wrap_future(left)
    assert holder.caller == "token of eve"


async def test_a_mistake_in_checking_is_told_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    holder = Holder()

    class Broken:
        async def verify(self, text: str) -> None:
            raise RuntimeError("broken")

    holder.server.access = Access(verifier=Broken())  # type: ignore[arg-type]
    text = token("HS256")
    with pytest.raises(ValueError, match="it cannot be checked now"):
        await holder.give(text)
    assert "RuntimeError: broken" in caplog.text and text not in caplog.text


class LateKeys(Verifier):
    """A token verifier whose keys arrive later."""

    def __init__(self) -> None:
        keys = secret_keys(SECRET.encode(), TERMS.algorithms)
        super().__init__(TERMS, KeySource(constant(keys), CONSTANT))
        self.have_come = False

    def recognize(self, text: str | None) -> Principal | None:
        return None

    async def verify(self, text: str) -> Principal:
        if not self.have_come:
            raise KeysMissing("no keys")
        return await super().verify(text)


async def test_the_token_of_a_client_is_checked_again_while_keys_are_missing() -> None:
    keys, reported = LateKeys(), list[str]()
    holder = Holder(Access(verifier=keys))
    client = holder.client(reported.append)
    await client.check()
    async with within():
        client.apply()
        assert client._check_task is not None and client.is_settled, "frames do not wait for missing keys"
        await client._check_task
        assert holder.caller == "" and len(reported) == 1
        keys.have_come = True
        client.apply()
        await client._check_task
    assert holder.caller == "token of ada"
    client.close()


class SlowKeys(LateKeys):
    """A check of tokens that waits until `may_end`."""

    def __init__(self) -> None:
        super().__init__()
        self.have_come, self.may_end = True, asyncio.Event()

    async def verify(self, text: str) -> Principal:
        await self.may_end.wait()
        return await super().verify(text)


async def test_frames_wait_while_the_token_is_checked_under_other_rules() -> None:
    holder, reported = Holder(), list[str]()
    client = holder.client(reported.append)
    await client.settled()
    assert client.is_settled and holder.caller == "token of ada"
    first, second = SlowKeys(), SlowKeys()
    for keys in (first, second):
        holder.server.access = Access(verifier=keys)
        client.apply()
        assert not client.is_settled and holder.caller == ""
        await asyncio.sleep(0)
    settled = asyncio.create_task(client.settled())
    first.may_end.set()
    await asyncio.sleep(0)
    assert not settled.done()
    second.may_end.set()
    async with within():
        await settled
    assert client.is_settled and holder.caller == "token of ada"
    client.close()


async def test_a_closed_client_is_not_checked_again() -> None:
    holder = Holder(Access(verifier=SlowKeys()))
    client = holder.client(lambda told: None)
    settled = asyncio.create_task(client.settled())
    await asyncio.sleep(0)
    client.close()
    async with within():
        await settled
    assert client.is_settled and holder.caller == ""
