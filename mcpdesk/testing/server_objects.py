"""Server objects of FastMCP and of the official SDK, served in this process for tests.

An object is served over Streamable HTTP on a port of 127.0.0.1, by its own public method, on a separate
thread and event loop. All clients of an object share this HTTP server, because some versions can be served
only once.
"""

from __future__ import annotations

import asyncio
import atexit
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcpdesk.errors import DeskUserError

START_S = 30.0
"""Time limit for the start of an object's server."""
STOP_S = 10.0
"""Time limit for the end of an object's server and its lifespan."""
GRACE_S = 1
"""Seconds that running requests have to finish when the server stops."""
MAX_IDLE_OBJECTS = 8
"""Maximum number of objects that are still served without a client. If there are more, the objects without a
client for the longest time are stopped.
"""
PATH = "/mcp"
SUPPORTED_CLASSES = "FastMCP, or MCPServer, FastMCP or Server of the official SDK"


@contextmanager
def object_url(server: Any) -> Iterator[str]:
    """Provide the URL of a server object, which is served at least while the block runs.

    Raises: DeskUserError if the object is not a server, or does not start.
    """
    served_object = _claim(server)
    try:
        yield served_object.url
    finally:
        _release(served_object)


class _ServedObject:
    """One server object, and the thread that serves it until `stop`."""

    def __init__(self, server: Any) -> None:
        import uvicorn

        self.server = server
        self.client_count = 0
        app, path = _application(server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{path}"
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            access_log=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        )
        self._http = uvicorn.Server(config)
        self._error: BaseException | None = None
        self._startup_ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="served object", daemon=True)
        self._thread.start()
        if not self._startup_ended.wait(START_S) or not self._http.started:
            self.stop()
            reason = self._error or "its lifespan failed or took too long"
            raise DeskUserError(f"{type(server).__name__} cannot be served: {reason}.")

    def stop(self) -> None:
        """Stop the server and its lifespan. Pending requests have `GRACE_S` seconds to finish."""
        self._http.should_exit = True
        self._thread.join(STOP_S)
        self._listener.close()

    def _serve(self) -> None:
        try:
            asyncio.run(self._until_stopped())
        except BaseException as error:  # an error of the object's code, which the waiting thread reports
            self._error = error
        finally:
            self._startup_ended.set()

    async def _until_stopped(self) -> None:
        server_task = asyncio.ensure_future(self._http.serve(sockets=[self._listener]))
        try:
            # uvicorn has no event for its start.
            while not self._http.started and not server_task.done():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            self._startup_ended.set()
        finally:
            await server_task


_served_objects: dict[int, _ServedObject] = {}
"""Served objects by id, the least recently used first. Each entry refers to its object, so that no other
object gets the same id.
"""
_lock = threading.Lock()


def _claim(server: Any) -> _ServedObject:
    with _lock:
        served_object = _served_objects.pop(id(server), None) or _ServedObject(server)
        _served_objects[id(server)] = served_object
        served_object.client_count += 1
        return served_object


def _release(served_object: _ServedObject) -> None:
    with _lock:
        served_object.client_count -= 1
        idle_objects = [each for each in _served_objects.values() if not each.client_count]
        for each in idle_objects[: max(0, len(idle_objects) - MAX_IDLE_OBJECTS)]:
            del _served_objects[id(each.server)]
            each.stop()


def _stop_all() -> None:
    with _lock:
        for each in _served_objects.values():
            each.stop()
        _served_objects.clear()


atexit.register(_stop_all)


def _application(server: Any) -> tuple[Any, str]:
    """Return the ASGI application of a server object, and the path of its endpoint. Raises: DeskUserError."""
    if callable(create_app := getattr(server, "http_app", None)):  # FastMCP
        return create_app(path=PATH), PATH
    if callable(create_app := getattr(server, "streamable_http_app", None)):
        return create_app(), str(getattr(getattr(server, "settings", None), "streamable_http_path", PATH))
    if callable(getattr(server, "create_initialization_options", None)):
        return _low_level_application(server), PATH
    raise DeskUserError(
        f"{type(server).__name__} is not a server object that can be tested.",
        f"Use a target as in the commands, or an object of {SUPPORTED_CLASSES}.",
    )


def _low_level_application(server: Any) -> Any:
    """Return the application of a low-level server of SDK 1.x, which does not create one itself."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    manager: Any = StreamableHTTPSessionManager(app=server)

    class Endpoint:
        """ASGI application. It is a class, because Starlette calls an instance with the three ASGI arguments,
        but a function with a request.
        """

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route(PATH, endpoint=Endpoint())], lifespan=lifespan)
