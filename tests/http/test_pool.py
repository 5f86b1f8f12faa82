"""Connections of the client: kept alive, given up when they are of no use, and never mixed up."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import assay
from assay import Client
from assay.sdk.client.credential import Credential
from assay.sdk.client.http.pool import ConnectionClosed, EngineUnreachable, HttpPool
from tests.http.processes import free_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(serve: Serve) -> AsyncIterator[HttpPool]:
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    pool = HttpPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1", Credential("x"))
    try:
        yield pool
    finally:
        pool.close()
        for writer in writers:
            writer.transport.abort()
        server.close()


async def request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
    return head, await reader.readexactly(length)


def test_a_connection_is_used_again_and_answers_stay_with_their_requests():
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            head, body = await request(reader)
            assert head.startswith("POST /api/v1/things?n=1 HTTP/1.1\r\n")
            assert "authorization: Bearer x\r\n" in head
            assert "idempotency-key: k\r\n" in head
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for part in (body[:2], body[2:]):
                writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            writer.write(b"0\r\n\r\n")

    async def main() -> None:
        async with answering(serve) as pool:
            for number in range(5):
                body = f"body {number}".encode()
                assert await pool.request("POST", "/things?n=1", body, 5, "k") == (200, body)
            assert connections == 1
            bodies = [f"{number:03}".encode() for number in range(20)]
            found = await asyncio.gather(*(pool.request("POST", "/things?n=1", body, 5, "k") for body in bodies))
            assert [body for _, body in found] == bodies
            assert connections == 20

    asyncio.run(main())


def test_who_goes_away_or_is_late_is_told_apart_from_who_is_not_there():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await request(reader)
        if body == b"go":
            writer.close()
        elif body == b"nonsense":
            writer.write(b"SSH-2.0-OpenSSH\r\n")
        elif body == b"once":
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
        await request(reader)

    async def main() -> None:
        async with answering(serve) as pool:
            for body in (b"go", b"nonsense"):
                with pytest.raises(ConnectionClosed):
                    await pool.request("POST", "/", body, 5)
            with pytest.raises(TimeoutError):
                await pool.request("POST", "/", b"wait", 0.05)
            assert await pool.request("POST", "/", b"once", 5) == (200, b"ok")
            waiting = asyncio.ensure_future(pool.request("POST", "/", b"wait", 5))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not pool.idle
            assert not pool.all  # nothing that could give one caller the answer to another
        with pytest.raises(EngineUnreachable, match="Connection refused"):
            await HttpPool(f"http://127.0.0.1:{free_port()}", Credential(None, environment={})).request(
                "GET", "/", b"", 5
            )

    asyncio.run(main())


def test_a_connection_that_is_lost_as_soon_as_it_is_made_is_noticed():
    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.transport.abort(), "127.0.0.1", 0)
        pool = HttpPool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", Credential(None, environment={}))
        for _ in range(50):
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(pool.request("POST", "/", b"x", 5), 2)
        server.close()

    asyncio.run(main())


def test_a_client_without_an_engine_soon_says_so():
    async def main() -> None:
        async with await Client.connect(f"http://127.0.0.1:{free_port()}") as client:
            with pytest.raises(assay.Unavailable, match="cannot be reached: Connection refused"):
                await client.start("W", workflow_id="w-1")

    asyncio.run(main())


@pytest.mark.parametrize("url", ["http://", "https:///api", "http://?x"])
def test_a_url_without_a_host_is_refused(url: str):
    with pytest.raises(assay.Invalid):
        asyncio.run(Client.connect(url))


def test_a_token_of_two_lines_is_refused():
    two_lines = "a\r\nx: y"
    with pytest.raises(assay.Invalid, match="one line"):
        asyncio.run(Client.connect("http://127.0.0.1:1", token=two_lines))
