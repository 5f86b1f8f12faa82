"""Fetch an issuer's documents: bounded in time and size, without redirects, from the checked address.

A host name is resolved once, the address is checked, and the connection uses the checked address. A DNS record that
changes between check and connection (DNS rebinding) has no effect.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httptools

from assay.auth.addresses import Address
from assay.core.model.errors import AssayError, Kind

FETCH_SECONDS: Final = 5.0
_CHUNK_BYTES: Final = 64 * 1024

CheckAddress = Callable[[Address], None]
"""A function that raises `Invalid` for a forbidden address."""


class FetchFailed(AssayError):
    """A document that could not be fetched."""

    code = "issuer_unavailable"
    kind = Kind.UNAVAILABLE

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status of the response, if there was a response."""


async def fetch(
    url: str,
    check: CheckAddress,
    *,
    limit: int,
    body: bytes | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Return the document at a URL, by GET, or by POST of a form if `body` is given.

    Args:
        url: The URL of the document.
        check: Called with the address before connecting.
        limit: The maximum number of bytes of the document.
        body: A form, for the token endpoint.
        headers: Further headers of the request.

    Raises:
        FetchFailed: No response within 5 s, a status other than 200, or a document that is too large.
        Invalid: The address is forbidden.
    """
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _fetched(url, check, limit, body, headers)
    except TimeoutError:
        raise FetchFailed(f"{url} did not answer within {FETCH_SECONDS:g} s") from None
    except (OSError, ssl.SSLError) as error:
        raise FetchFailed(f"{url} cannot be reached: {error}") from None


async def resolve(url: str) -> Address:
    """Return the first address of the host of a URL.

    Raises:
        FetchFailed: The host has no address, or the answer takes too long.
    """
    parts = urlsplit(url)
    resolving = asyncio.get_running_loop().getaddrinfo(parts.hostname, _port(parts), type=socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            found = await resolving
    except (OSError, TimeoutError) as error:
        raise FetchFailed(f"the address of {parts.hostname} cannot be found: {error}") from None
    return ipaddress.ip_address(found[0][4][0])


async def _fetched(
    url: str, check: CheckAddress, limit: int, body: bytes | None, headers: tuple[tuple[str, str], ...]
) -> bytes:
    parts = urlsplit(url)
    address = await resolve(url)
    check(address)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        str(address),
        _port(parts),
        ssl=ssl.create_default_context() if secure else None,
        server_hostname=parts.hostname if secure else None,
    )
    try:
        writer.write(_request(parts, body, headers))
        await writer.drain()
        return await _read(reader, url, limit)
    finally:
        writer.close()


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _request(parts: SplitResult, body: bytes | None, headers: tuple[tuple[str, str], ...]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{'GET' if body is None else 'POST'} {target} HTTP/1.1", f"host: {parts.netloc}", "connection: close"]
    lines += ["accept: application/json", *(f"{name}: {value}" for name, value in headers)]
    if body is not None:
        lines += ["content-type: application/x-www-form-urlencoded", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")


class _Answer:
    """The callbacks of httptools that collect a response."""

    def __init__(self, limit: int) -> None:
        self.body = bytearray()
        self.done = False
        self._limit = limit

    def on_body(self, data: bytes) -> None:
        self.body += data
        if len(self.body) > self._limit:
            raise FetchFailed(f"the document is larger than {self._limit:,} bytes")

    def on_message_complete(self) -> None:
        self.done = True


async def _read(reader: asyncio.StreamReader, url: str, limit: int) -> bytes:
    answer = _Answer(limit)
    parser = httptools.HttpResponseParser(answer)
    received = 0
    while not answer.done:
        data = await reader.read(_CHUNK_BYTES)
        received += len(data)
        if received > 2 * limit:  # bounds headers and chunk sizes, which do not count in the body
            raise FetchFailed(f"the answer of {url} is too large")
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, FetchFailed):
                raise error.__context__ from None
            raise FetchFailed(f"the answer of {url} is not HTTP") from None
        if not data:
            break
    if not answer.done:
        raise FetchFailed(f"the answer of {url} ended early")
    if parser.get_status_code() != 200:
        raise FetchFailed(f"{url} answered {parser.get_status_code()}", status=parser.get_status_code())
    return bytes(answer.body)
