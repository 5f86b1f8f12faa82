"""The blocking end of the client: any answer that HTTP permits is read, and one that is cut short is noticed."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from assay.core.model.errors import Invalid
from assay.sdk.client.http.blocking_connection import BlockingConnection
from assay.sdk.client.http.http1 import ConnectionClosed, Endpoint


@contextlib.contextmanager
def answering(*answers: bytes, stays: bool = False) -> Iterator[BlockingConnection]:
    """Connect to a server that gives these answers, one to each request, and then hangs up unless it stays."""
    done = threading.Event()

    def serve() -> None:
        with server.accept()[0] as client:
            for answer in answers:
                client.recv(65_536)
                client.sendall(answer)
            if stays:
                done.wait(20)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        connection = BlockingConnection(Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}", {}), 10)
        try:
            yield connection
        finally:
            done.set()
            connection.close()
            thread.join()


def test_an_answer_in_chunks_after_an_interim_one():
    chunks = b"HTTP/1.1 200 OK\r\nX-Total: 2\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"
    with answering(b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + chunks, stays=True) as connection:
        reply = connection.request("GET", "/", b"")
        assert (reply.status, reply.content, connection.reusable) == (200, b"abc", True)
        assert reply.headers == {"x-total": "2", "transfer-encoding": "chunked"}


def test_an_answer_that_ends_with_the_connection():
    with answering(b"HTTP/1.0 200 OK\r\nserver: old\r\n\r\nhello") as connection:
        assert connection.request("GET", "/", b"").content == b"hello"
        assert not connection.reusable


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
def test_an_answer_that_is_cut_short(answer: bytes):
    with answering(answer) as connection, pytest.raises(ConnectionClosed):
        connection.request("GET", "/", b"")


def test_a_connection_that_ends_after_an_answer_without_a_body():
    with answering(b"HTTP/1.1 204 No Content\r\n\r\n", b"") as connection:
        assert connection.request("DELETE", "/", b"").status == 204
        with pytest.raises(ConnectionClosed):
            connection.request("GET", "/", b"")


def test_a_host_with_other_letters_is_named_in_ascii():
    assert b"\r\nhost: xn--mller-kva.example:81\r\n" in Endpoint("http://müller.example:81", {}).request(
        "GET", "/", b""
    )


@pytest.mark.parametrize("url", ["http://x/a b", "http://x/ü", "http://", "ftp://x"])
def test_a_url_that_cannot_be_requested(url: str):
    with pytest.raises(Invalid, match="no URL of an engine"):
        Endpoint(url, {})
