"""A request as routes see it: path parameters, query, headers, and a body within its limits."""

import asyncio
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from assay.auth.permissions import UNRESTRICTED
from assay.auth.tickets import StreamTicket
from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import seconds
from assay.core.model.payload import DEPTH_LIMIT, NULL, Payload, check_json, check_keys, check_limits, is_empty
from assay.worker_protocol.messages import MAX_WAIT_SECONDS as MAX_WAIT_SECONDS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Body = TypeVar("Body", bound=msgspec.Struct)

READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
BODY_LIMIT_BYTES: Final = 4 * 1024 * 1024
WRAPPING_LEVELS: Final = 8
"""Levels of nesting that a body may have around a payload."""
MAX_BODY_KEYS: Final = 200_000
"""Keys of an object in a whole body. Each payload in the body has its own, lower limit."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_SIMPLE: Final = re.compile(r"\w+=[\w.-]+", re.ASCII)
"""A query with a single parameter that needs no decoding, the usual case."""
_SWAPPED: Final = {b"[": msgspec.Raw(b"{}"), b"{": msgspec.Raw(b"[]")}
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decoders: dict[type, Callable[[bytes], Any]] = {}


class Forwarded(msgspec.Struct, frozen=True):
    """The client of a request that came through a trusted proxy."""

    address: str
    scheme: str | None
    host: str | None


class ApiCall:
    """A request of a caller or a worker."""

    __slots__ = (
        "_body",
        "_headers",
        "_query",
        "_receive",
        "_request_id",
        "anonymous",
        "cors_origin",
        "extra_headers",
        "forwarded",
        "gone",
        "limit",
        "method",
        "operation",
        "parameters",
        "path",
        "principal",
        "scope",
        "ticket",
    )

    def __init__(self, scope: Scope, receive: Receive, parameters: Mapping[str, str], operation: str = "") -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        self.parameters = parameters
        self.operation = operation
        self.limit = BODY_LIMIT_BYTES
        self.gone: asyncio.Task[None] | None = None
        self.principal = UNRESTRICTED
        """The caller. The default is an admin: it stands if authentication is off, else it is replaced at once."""
        self.anonymous = False
        """True for a caller without a credential that may create the first API key."""
        self.forwarded: Forwarded | None = None
        """The client behind a trusted proxy; None for a direct caller."""
        self.cors_origin: str | None = None
        """The allowed origin of another site whose page sent the request."""
        self.extra_headers: tuple[tuple[bytes, bytes], ...] = ()
        """Headers of the answer that depend on the request, whatever its route."""
        self.ticket: StreamTicket | None = None
        """The ticket of an event stream, instead of a credential."""
        self._receive = receive
        self._headers: dict[bytes, bytes] | None = None
        self._query: list[tuple[str, str]] | None = None
        self._body: bytes | None = None
        self._request_id: str | None = None

    def header(self, name: bytes) -> str | None:
        """Return a header by its lower-case name."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        found = self._headers.get(name)
        return None if found is None else found.decode("latin-1")

    @property
    def given_request_id(self) -> str | None:
        """The caller's own id of the request, if it is one that logs and headers can hold."""
        given = self.header(b"x-request-id")
        return given if given is not None and _REQUEST_ID.fullmatch(given) else None

    @property
    def request_id(self) -> str:
        """The id under which an error of this request is found in logs: the caller's own, else a generated one."""
        if self._request_id is None:
            self._request_id = self.given_request_id or secrets.token_hex(8)
        return self._request_id

    def repeats(self, name: bytes) -> bool:
        """Return whether a header occurs more than once. A proxy may have used another value than the engine."""
        given: list[tuple[bytes, bytes]] = self.scope["headers"]
        known = self._headers
        if known is not None and len(known) == len(given):
            return False  # as many different names as headers: no header is repeated
        return sum(key == name for key, _ in given) > 1

    @property
    def peer(self) -> str:
        """Return the address of the other end of the connection, which may be a proxy."""
        client = self.scope.get("client")
        return str(client[0]) if client else "unknown"

    @property
    def address(self) -> str:
        """Return the address of the client, as a trusted proxy gives it, or of the connection."""
        return self.peer if self.forwarded is None else self.forwarded.address

    @property
    def is_secure(self) -> bool:
        """Return whether the client uses https, up to the engine or up to a trusted proxy."""
        if self.forwarded is not None and self.forwarded.scheme is not None:
            return self.forwarded.scheme == "https"
        return self.scope.get("scheme") in ("https", "wss")

    # query

    def all(self, name: str) -> list[str]:
        """Return all values of a query parameter."""
        if self._query is None:
            self._query = _parse_query(self.scope["query_string"])
        return [value for key, value in self._query if key == name]

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the last value of a query parameter; an empty value counts as absent."""
        if not self.scope["query_string"]:
            return default
        found = self.all(name)
        return found[-1] if found and found[-1] else default

    @property
    def namespace(self) -> str:
        """Return the namespace of the request; `main` by default."""
        return self.text("namespace", "main") or "main"

    def number(self, name: str) -> float | None:
        """Return a query parameter that must be a finite number."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise Invalid(f"{name} must be a number, not {text!r}", field=name)
        return value

    def whole(self, name: str) -> int | None:
        """Return a query parameter that must be a whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 18:
            raise Invalid(f"{name} must be a whole number, not {text!r}", field=name)
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """Return a query parameter that must be true or false."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false", "1", "0"):
            raise Invalid(f"{name} must be true or false, not {text!r}", field=name)
        return text.lower() in ("true", "1")

    def wait(self, from_body: float | str | None = None) -> float | None:
        """Return how long the caller waits at most, in seconds: `wait_secs` of the query, else `from_body`."""
        text = self.text("wait_secs")
        given = from_body if text is None else _number(text)
        if given is None:
            return None
        if isinstance(given, str):
            return min(seconds(parse_duration(given, "wait_secs")), MAX_WAIT_SECONDS)
        if given < 0 or not math.isfinite(given):
            raise Invalid("wait_secs must be a number of seconds, or a text such as '10s'", field="wait_secs")
        return min(given, MAX_WAIT_SECONDS)

    # body

    async def body(self) -> bytes:
        """Return the whole body; read it on the first call."""
        if self._body is None:
            self._body = await self._read()
        return self._body

    async def _read(self) -> bytes:
        length = self.header(b"content-length")
        if length is not None and length.isdecimal() and int(length) > self.limit:
            raise _too_large(self.limit)
        message = await self._part()
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return self._small(first)
        parts, size = [first], len(first)
        while message.get("more_body"):
            message = await self._part()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.limit:
                raise _too_large(self.limit)
        return self._small(b"".join(parts))

    async def _part(self) -> MutableMapping[str, Any]:
        """Return the next part of the body; raise if the caller disconnected, so that half a body has no effect."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Invalid("the request ended before its body did", code="incomplete_body")
        return message

    def _small(self, body: bytes) -> bytes:
        if len(body) > self.limit:
            raise _too_large(self.limit)
        return body

    async def read(self, kind: type[Body]) -> Body:
        """Return the body as a struct; an empty body, null, {} and [] have the same meaning."""
        body = await self.body()
        if is_empty(body):
            if body:
                self.check_origin_type()
            return _decode(b"{}", kind)
        self.check_type()
        value = check_json(
            body, limit=BODY_LIMIT_BYTES, depth=DEPTH_LIMIT + WRAPPING_LEVELS, keys=MAX_BODY_KEYS, name="body"
        )
        check_keys(body, value, "body")
        return _decode(body, kind)

    def check_type(self) -> None:
        """Raise `Invalid` for a type other than JSON; a program may leave the type out."""
        if self.header(b"content-encoding") not in (None, "identity"):
            raise Invalid("request bodies must not be compressed", code="unsupported_encoding")
        kind = self._content_type()
        self.check_origin_type()
        if kind and kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Invalid(f"the body must be application/json, not {kind}", code="unsupported_media_type")

    def check_origin_type(self) -> None:
        """Raise `Invalid` for the body of a web page whose type is not `application/json`.

        A form or script of another site can send other types without a CORS preflight; `application/json` needs one.
        """
        if self.header(b"origin") is not None and self._content_type() != "application/json":
            raise Invalid("with an Origin the body must be application/json", code="unsupported_media_type")

    def require_json(self) -> None:
        """Raise `Invalid` unless the type is `application/json`, also without a body."""
        if self._content_type() != "application/json":
            raise Invalid("the request must be application/json", code="unsupported_media_type")

    def _content_type(self) -> str:
        return (self.header(b"content-type") or "").partition(";")[0].strip().lower()

    # presence

    def watch(self) -> "asyncio.Task[None]":
        """Return a task that ends when the caller disconnects; the body must have been read before."""
        if self.gone is None:
            self.gone = asyncio.get_running_loop().create_task(self._leaves())
        return self.gone

    async def _leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def done(self) -> None:
        """Stop watching the caller."""
        if self.gone is not None:
            self.gone.cancel()


def _number(text: str) -> float | str:
    """Return the number that a text of the query holds, or the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


def _parse_query(raw: bytes) -> list[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        if _SIMPLE.fullmatch(text):
            name, _, value = text.partition("=")
            return [(name, value)]
        found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1_000)
    except ValueError as error:
        raise Invalid(f"the query string cannot be read: {error}", code="invalid_query") from None
    if b"%00" in raw and any("\0" in value for _, value in found):
        raise Invalid("the query string holds U+0000, which no name can", code="invalid_query")
    return found


def _too_large(limit: int) -> Invalid:
    return Invalid(f"the body is larger than {limit:,} bytes", code="body_too_large")


def _decode(body: bytes, kind: type[Body]) -> Body:
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.json.Decoder(kind).decode
    try:
        found: Body = decode(body)
        return found
    except msgspec.ValidationError as error:
        # Decode again with empty tables swapped only after a failure: correct bodies pay nothing.
        again = _unempty(body, kind)
        if again is None:
            raise wrong_shape(error) from None
        try:
            swapped: Body = decode(again)
            return swapped
        except msgspec.ValidationError as second:
            raise wrong_shape(second) from None


def _unempty(body: bytes, kind: type[msgspec.Struct]) -> bytes | None:
    """Return the body with empty arrays as objects and vice versa: some languages have a single empty table."""
    try:
        members = _members(body)
    except msgspec.DecodeError:
        return None
    documents = {field.encode_name for field in msgspec.structs.fields(kind) if field.type is msgspec.Raw}
    empties = {key: bytes(value)[:1] for key, value in members.items() if key not in documents and is_empty(value)}
    wanted = {key: _SWAPPED[opening] for key, opening in empties.items() if opening in _SWAPPED}
    return msgspec.json.encode({**members, **wanted}) if wanted else None


def wrong_shape(error: msgspec.ValidationError) -> Invalid:
    """Return the error for JSON of a wrong shape, with the path of the field."""
    message, _, path = str(error).partition(" - at `$")
    field = path.removesuffix("`").lstrip(".") or None
    if field is None and "missing required field `" in message:
        field = message.partition("field `")[2].partition("`")[0]
    return Invalid(f"{message}{f' at {field}' if path else ''}", code="wrong_shape", field=field)


def payload(raw: Payload, name: str) -> Payload:
    """Return a document of a checked body; raise `Invalid` if it exceeds the limits of a payload."""
    if raw is NULL or raw == NULL:
        return NULL
    check_limits(bytes(raw), name=name)
    return raw


def document(raw: Payload, name: str) -> Payload:
    """Return a payload that must be an object; an empty array counts as an empty object."""
    found = payload(raw, name)
    if found is NULL:
        return found
    if is_empty(found):
        return Payload(b"{}")
    if not bytes(found).startswith(b"{"):
        raise Invalid(f"{name} must be a JSON object", field=name)
    return found
