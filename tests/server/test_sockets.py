"""A WebSocket that its peer does not use as it should is ended within seconds, and costs no memory until then."""

import base64
import contextlib
import os
import socket
from collections.abc import Iterator

import pytest
from websockets.frames import Frame, Opcode

from assay.worker_protocol import messages as wire
from assay.worker_protocol.websocket_frames import framed
from benchmarks.proc import resident_bytes
from tests.api.support import Http, Server, fresh, until
from tests.server.raw_clients import SOON, rest, status

HELLO = framed(wire.encode(wire.WorkerMessage(number=1, hello=wire.Hello(queue="sockets"))), masked=True)
PING = Frame(Opcode.PING, b"x" * 125).serialize(mask=True)
CLOSED_BY_POLICY = (1008).to_bytes(2, "big")


@contextlib.contextmanager
def upgraded(server: Server, *, receive_buffer: int | None = None) -> Iterator[socket.socket]:
    """A WebSocket after its handshake."""
    with socket.socket() as client:
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(SOON)
        client.connect(("127.0.0.1", server.port))
        client.sendall(
            f"GET /api/v1/workers/{fresh('w')}/exchange?namespace=main HTTP/1.1\r\nHost: localhost\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
        )
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += client.recv(1)
        assert status(answer) == 101
        yield client


def greeted(client: socket.socket) -> None:
    client.sendall(HELLO)
    assert client.recv(65_536)[0] == 0x82  # a message of the engine


def test_a_peer_that_never_says_hello_is_closed(server: Server) -> None:
    with upgraded(server) as client:
        assert CLOSED_BY_POLICY in rest(client)


def test_signs_of_life_do_not_replace_a_hello(server: Server) -> None:
    with upgraded(server) as client:
        found = b""

        def is_closed() -> bool:
            nonlocal found
            with contextlib.suppress(ConnectionError):
                client.sendall(PING)
                found += client.recv(65_536)
            return CLOSED_BY_POLICY in found

        until(is_closed, SOON)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(framed(b"x" * 1_000, masked=True)[:100], id="half a frame"),
        pytest.param(framed(b"x", masked=True)[:1], id="half a header"),
        pytest.param(Frame(Opcode.BINARY, b"{", fin=False).serialize(mask=True), id="half a message"),
    ],
)
def test_a_message_that_is_not_completed_ends_its_connection(server: Server, sent: bytes) -> None:
    with upgraded(server) as client:
        greeted(client)
        client.sendall(sent)
        assert CLOSED_BY_POLICY in rest(client)


def test_a_worker_without_any_sign_of_life_is_closed(server: Server) -> None:
    with upgraded(server) as client:
        greeted(client)
        assert CLOSED_BY_POLICY in rest(client)


@pytest.mark.quiet
def test_pings_of_a_peer_that_does_not_read_cost_no_memory(server: Server, http: Http) -> None:
    before = resident_bytes(server.process.pid)
    sent = 0
    with upgraded(server, receive_buffer=4_096) as client:
        client.settimeout(SOON)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while sent < 200_000_000:  # without a bound all of it is taken, and answered into memory
                sent += client.send(PING * 400)
    assert sent < 50_000_000
    assert resident_bytes(server.process.pid) - before < 20_000_000
    assert http.get("/health").status == 200
