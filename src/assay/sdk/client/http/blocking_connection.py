"""A blocking connection to an engine: one request at a time, on a plain socket."""

import socket
from typing import Final, NamedTuple

from assay.sdk.client.http.http1 import AnswerReader, ConnectionClosed, Endpoint

PART_BYTES: Final = 65_536
"""Bytes per read from the socket."""


class Reply(NamedTuple):
    """An HTTP response; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes


class BlockingConnection(AnswerReader):
    """An open connection; each operation on its socket takes at most `seconds`."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._headers: dict[str, str] = {}
        self._ends_with_connection = False
        self._replies: list[Reply] = []
        self.reusable = True
        self.sock = _connected(endpoint, seconds)

    def request(self, method: str, target: str, body: bytes) -> Reply:
        """Send a request and return the response; raise `OSError` if the connection ends first."""
        self.sock.sendall(self._endpoint.request(method, target, body))
        while not self._replies:
            data = self.sock.recv(PART_BYTES)
            if data:
                self.read(data)
            else:
                self._read_end()
        return self._replies.pop()

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()

    # Callbacks of the parser and the reader.

    def on_message_begin(self) -> None:
        """Begin a response."""
        self._headers, self._ends_with_connection = {}, False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Note whether the body ends with the connection: without a length, as HTTP/1.0 servers send."""
        self._ends_with_connection = not self._headers.keys() & {"content-length", "transfer-encoding"}

    def answered(self, status: int, body: bytes, *, keep: bool) -> None:
        """See `AnswerReader`."""
        self._replies.append(Reply(status, self._headers, body))
        self.reusable, self._ends_with_connection = keep, False

    def _read_end(self) -> None:
        """Complete a response whose body ends with the connection; raise if a response is incomplete."""
        if self._ends_with_connection:
            self.on_message_complete()
        if not self._replies:
            raise ConnectionClosed("the engine closed the connection")


def _connected(endpoint: Endpoint, seconds: float) -> socket.socket:
    plain = socket.create_connection((endpoint.host, endpoint.port), seconds)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not endpoint.is_tls:
        return plain
    import ssl  # slower to import than the rest of this module together

    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=endpoint.host)
    except BaseException:
        plain.close()
        raise
