"""Chooses the classes that serve connections: ours on the uvicorn version they extend, uvicorn's own on any other."""

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NamedTuple

import uvicorn

from assay.api.app import Api
from assay.api.call import Receive, Send
from assay.api.exchange import MESSAGE_SOCKET
from assay.server.client_limits import ClientLimits

log = logging.getLogger("assay.server")

EXTENDED_UVICORN: Final = "0.54"
"""The minor version that `connection` and `sockets` extend, by attributes that are not its public interface; hence the
upper bound of the dependency in `pyproject.toml`."""


class Protocols(NamedTuple):
    """The parts of uvicorn's configuration that depend on its version."""

    application: Any
    http: Any
    ws: Any
    connections: int | None
    """Most connections that uvicorn itself admits; None if our classes count them."""


def protocols_of(api: Api, limits: ClientLimits) -> Protocols:
    """Return the fast path for the uvicorn version that it extends; for any other the plain path, with a warning."""
    version = uvicorn.__version__
    if version == EXTENDED_UVICORN or version.startswith(f"{EXTENDED_UVICORN}."):
        return fast(api, limits)
    log.warning(
        "uvicorn %s is not %s: requests are served by its own classes, more slowly and with no time limit for a client"
        " that sends a request slowly or does not read its answer; install uvicorn %s",
        *(version, EXTENDED_UVICORN, EXTENDED_UVICORN),
    )
    return plain(api, limits)


def fast(api: Api, limits: ClientLimits) -> Protocols:
    """Serve by our classes: whole answers in a single write, WebSocket messages without a queue, limits of time."""
    from assay.server.connection import Connection
    from assay.server.sockets import Socket

    within = {"limits": limits}
    return Protocols(api, type("Connection", (Connection,), within), type("Socket", (Socket,), within), None)


def plain(api: Api, limits: ClientLimits) -> Protocols:
    """Serve by uvicorn's own classes and ASGI messages."""
    return Protocols(PlainApplication(api), "auto", "auto", limits.connections)


class PlainApplication:
    """The API on a server without message sockets: each WebSocket gets one made of ASGI messages."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            scope["extensions"] = {**scope.get("extensions", {}), MESSAGE_SOCKET: PlainMessageSocket(send)}
        await self._api(scope, receive, send)


class PlainMessageSocket:
    """See `MessageSocket`; sends a message at a time, and leaves incoming messages to ASGI."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sending: asyncio.Task[None] | None = None
        self._lost = False
        self._resumed: Callable[[], None] | None = None

    def listen(self, receive: Callable[[bytes], bool]) -> None:
        """See `MessageSocket`; never calls `receive`: all messages arrive by ASGI."""

    def can_send(self) -> bool:
        """See `MessageSocket`."""
        return self._sending is None and not self._lost

    def send_message(self, body: bytes) -> None:
        """See `MessageSocket`."""
        self._sending = asyncio.get_running_loop().create_task(self._deliver(body))

    async def _deliver(self, body: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "bytes": body})
        except (OSError, RuntimeError):  # the connection is closed, and the receiving side gets the disconnect
            self._lost = True
        self._sending = None
        if self._resumed is not None:
            self._resumed()

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """See `MessageSocket`."""
        self._resumed = resumed
