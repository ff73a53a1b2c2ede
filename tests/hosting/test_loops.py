"""A core's loop goes on whatever its tasks do."""

from __future__ import annotations

import asyncio
import sys

import pytest

from mcpdesk.hosting import loops


async def leave() -> None:
    sys.exit(4)


@pytest.mark.parametrize("factory", [None, loops.loop_factory()])
def test_a_task_in_the_background_that_exits_ends_only_itself(
    factory: loops.LoopFactory | None, caplog: pytest.LogCaptureFixture
) -> None:
    reached: list[str] = []

    async def main() -> None:
        task_aio = asyncio.create_task(leave())
        await asyncio.wait({task_aio})
        assert isinstance(task_aio.exception(), SystemExit)
        reached.append("the end")

    loops.run(main(), factory)
    assert reached == ["the end"]
    assert "SystemExit(4)" in caplog.text


def test_what_the_core_itself_raises_is_raised() -> None:
    async def main() -> None:
        raise ValueError("of the core")

    with pytest.raises(ValueError, match="of the core"):
        loops.run(main())
    with pytest.raises(SystemExit):
        loops.run(leave())
