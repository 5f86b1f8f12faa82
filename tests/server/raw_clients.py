"""Clients that send bytes as they like and read what comes back."""

import contextlib
import socket
from collections.abc import Iterator

from tests.api.support import Server

SOON = 10.0
"""Seconds: much more than the engine's patience, much less than for ever."""


@contextlib.contextmanager
def connected(server: Server, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SOON) as client:
        client.sendall(sent)
        yield client


def rest(client: socket.socket) -> bytes:
    """All that comes until the engine hangs up."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            found += part
    return found


def one_answer(client: socket.socket) -> bytes:
    """What comes until the end of a JSON object, on a connection that stays."""
    found = b""
    while not found.endswith(b"}"):
        part = client.recv(65_536)
        assert part, found
        found += part
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])
