"""Where messages of a task of the core design go: one stream each."""

from __future__ import annotations

from mcpdesk.server.background.task_work import TaskOutlet


class Stream:
    must_drain = True

    def __init__(self, may_send: bool = True) -> None:
        self.may_send = may_send
        self.sent: list[bytes] = []
        self.drained = 0

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def drain(self) -> None:
        self.drained += 1

    def keep_alive(self) -> None:
        self.sent.append(b"alive")

    async def let_go(self, retry_ms: int) -> bool:
        return True


async def test_who_waits_hears_it_and_otherwise_it_goes_beside_all_requests() -> None:
    pushed: list[bytes] = []
    outlet, first, second, deaf = TaskOutlet(pushed.append), Stream(), Stream(), Stream(may_send=False)
    outlet.send(b"1")
    with outlet.through(first):
        outlet.send(b"2")
        with outlet.through(second), outlet.through(deaf):
            outlet.send(b"3")
            await outlet.drain()
        outlet.send(b"4")
    outlet.send(b"5")
    await outlet.drain()
    assert (pushed, first.sent, second.sent, deaf.sent) == ([b"1", b"5"], [b"2", b"4"], [b"3"], [])
    assert (first.drained, second.drained) == (0, 1)


async def test_it_has_no_connection_of_its_own() -> None:
    pushed: list[bytes] = []
    outlet = TaskOutlet(pushed.append)
    outlet.keep_alive()
    assert outlet.may_send and not await outlet.let_go(5) and pushed == []
