"""Both ends of a WebSocket take what others make of messages: parts, texts, several at a time, signs in between."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.sync.client import ClientConnection, connect

from assay.core.model.errors import Unavailable
from assay.sdk.client.credential import Credential
from assay.sdk.client.http.pool import EngineUnreachable, HttpPool
from assay.sdk.client.http.socket import NotUpgraded
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_engine_message
from tests.http.conftest import Server


def encoded(number: int, **fields: object) -> bytes:
    return wire.encode(wire.WorkerMessage(number=number, **fields))  # type: ignore[arg-type]  # fields of the struct


def received(socket: ClientConnection) -> wire.EngineMessage:
    body = socket.recv(timeout=10)
    assert isinstance(body, bytes)
    return decode_engine_message(body)


def test_an_engine_takes_messages_in_parts_as_text_and_many_at_once(engine: Server) -> None:
    url = f"{engine.url.replace('http', 'ws')}/api/v1/workers/w-parts/exchange?namespace=main"
    with connect(url, compression=None) as socket:
        hello = encoded(1, hello=wire.Hello(queue="parts"))
        socket.send([hello[:10], hello[10:]])
        assert received(socket).problem is None
        signs = [encoded(number) for number in range(2, 7)]
        socket.send(signs[0])
        socket.send([signs[1][:3], signs[1][3:]])
        assert socket.ping().wait(10)
        socket.send(signs[2].decode())
        for sign in signs[3:]:
            socket.send(sign)
        socket.send(encoded(6))  # once more: it is old only if all before it were heard, in their order
        while (problem := received(socket).problem) is None:
            pass
        assert problem.code == "old_message"


class Peer:
    """A server that does what the test says with its one connection."""

    def __init__(self, act: Callable[[ServerConnection], Awaitable[None]]) -> None:
        self._act = act

    async def received_messages(self, until: int) -> list[bytes]:
        """What our end hears from it."""
        messages: list[bytes] = []
        enough = asyncio.Event()

        def receive(body: bytes) -> None:
            messages.append(body)
            if len(messages) == until:
                enough.set()

        async with serve(self._act, "127.0.0.1", 0, compression=None) as server:
            port = server.sockets[0].getsockname()[1]
            pool = HttpPool(f"http://127.0.0.1:{port}", Credential(None, environment={}))
            socket = await pool.socket("/any", receive)
            socket.send(b"there")
            async with asyncio.timeout(10):
                if until:
                    await enough.wait()
                    socket.end()
                await socket.ended
        return messages


def test_a_worker_takes_messages_in_parts_and_answers_pings() -> None:
    async def act(connection: ServerConnection) -> None:
        assert await connection.recv() == b"there"
        await connection.send(b"whole")
        await connection.send([b"in ", b"parts"])
        await (await connection.ping())
        await connection.send(b"x" * 100_000)
        await connection.wait_closed()

    found = asyncio.run(Peer(act).received_messages(3))
    assert [len(body) for body in found] == [5, 8, 100_000]
    assert found[:2] == [b"whole", b"in parts"]


def test_a_worker_hears_that_the_engine_hangs_up() -> None:
    async def act(connection: ServerConnection) -> None:
        await connection.close(1012)

    with pytest.raises(Unavailable, match="1012"):
        asyncio.run(Peer(act).received_messages(0))


def test_a_server_without_websockets_is_told_from_none_at_all(engine: Server) -> None:
    async def try_socket(url: str) -> None:
        await HttpPool(url, Credential(None, environment={})).socket("/api/v1/version", lambda _: None)

    with pytest.raises(NotUpgraded) as caught:
        asyncio.run(try_socket(engine.url))
    assert caught.value.status in (403, 404)
    with pytest.raises(EngineUnreachable):
        asyncio.run(try_socket("http://127.0.0.1:9"))
