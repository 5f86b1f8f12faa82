"""Which classes serve connections: ours on the uvicorn that they extend, uvicorn's own on any other."""

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Any, Final, NamedTuple

import uvicorn

from assay.api.app import Api
from assay.api.call import Receive, Send
from assay.api.exchange import MESSAGE_SOCKET
from assay.server.patience import Patience

log = logging.getLogger("assay.server")

EXTENDED_UVICORN: Final = "0.54"
"""The minor version whose protocol classes `connection` and `sockets` extend, by attributes that it does not promise
to keep; the dependency in `pyproject.toml` ends with it."""


class Protocols(NamedTuple):
    """How uvicorn is configured to serve the API."""

    application: Any
    http: Any
    ws: Any
    connections: int | None
    """How many connections uvicorn itself admits; None if the classes count them."""


def protocols_of(api: Api, patience: Patience) -> Protocols:
    """Return the fast path where the installed uvicorn permits it, else the plain one with a warning."""
    version = uvicorn.__version__
    if version == EXTENDED_UVICORN or version.startswith(f"{EXTENDED_UVICORN}."):
        return fast(api, patience)
    log.warning(
        "uvicorn %s is not %s: requests are served by its own classes, more slowly and with no time limit for a client"
        " that sends a request slowly or does not read its answer; install uvicorn %s",
        *(version, EXTENDED_UVICORN, EXTENDED_UVICORN),
    )
    return plain(api, patience)


def fast(api: Api, patience: Patience) -> Protocols:
    """Serve by our classes: whole answers in one write, whole WebSocket messages without a queue, limits in time."""
    from assay.server.connection import Connection
    from assay.server.sockets import Socket

    within = {"patience": patience}
    return Protocols(api, type("Connection", (Connection,), within), type("Socket", (Socket,), within), None)


def plain(api: Api, patience: Patience) -> Protocols:
    """Serve by uvicorn's classes and the messages of ASGI alone."""
    return Protocols(PlainApplication(api), "auto", "auto", patience.connections)


class PlainApplication:
    """The API on a server that has no `Line`: each WebSocket gets one made of ASGI messages."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            scope["extensions"] = {**scope.get("extensions", {}), MESSAGE_SOCKET: PlainMessageSocket(send)}
        await self._api(scope, receive, send)


class PlainMessageSocket:
    """See `MessageSocket`; one message is sent at a time, and those that arrive are received as ASGI has it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sending: asyncio.Task[None] | None = None
        self._lost = False
        self._resumed: Callable[[], None] | None = None

    def listen(self, receive: Callable[[bytes], bool]) -> None:
        """See `MessageSocket`; no message is handed over, all are to be received."""

    def can_send(self) -> bool:
        """See `MessageSocket`."""
        return self._sending is None and not self._lost

    def send_message(self, body: bytes) -> None:
        """See `MessageSocket`."""
        self._sending = asyncio.get_running_loop().create_task(self._deliver(body))

    async def _deliver(self, body: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "bytes": body})
        except (OSError, RuntimeError):  # the connection is closed, which the receiving side is told, too
            self._lost = True
        self._sending = None
        if self._resumed is not None:
            self._resumed()

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """See `MessageSocket`."""
        self._resumed = resumed
