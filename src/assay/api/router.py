"""Find the route of a path. Segments are split before decoding, because an id may contain a slash or any character."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from assay.api.access import MANAGE_ALL, Access
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, Receive, Send
from assay.api.stream import EventStream
from assay.core.model.errors import AssayError, Invalid, Kind, NotFound

PREFIXES: Final = ("/api/v1", "/api/v1/engine/workflow")
"""Every route of the API is served under both prefixes."""

Reaction = Callable[[Backend, ApiCall], Awaitable[HttpResponse | EventStream]]
Connection = Callable[[Backend, ApiCall, Receive, Send], Awaitable[None]]


class Parameter(msgspec.Struct, frozen=True):
    """A query parameter or a header, for the description of the API."""

    name: str
    about: str
    kind: Any = str
    several: bool = False


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of the API: method and path, request and response types, and the function that serves it."""

    method: str
    path: str
    operation_id: str
    summary: str
    tag: str
    reaction: Reaction
    answers: dict[int, Any]
    """The type of the JSON body by status; a tuple means any of several types, None means no body."""
    body: Any = None
    body_optional: bool = False
    query: tuple[Parameter, ...] = ()
    asking: tuple[Parameter, ...] = ()
    """Request headers with a meaning for this route."""
    headers: tuple[Parameter, ...] = ()
    """Response headers with a meaning for this route."""
    idempotent: bool = False
    """Whether the route accepts an `Idempotency-Key`."""
    access: Access = MANAGE_ALL
    """The permission that the route requires; by default only admins of all namespaces may call it."""
    ticket: bool = False
    """Whether the route accepts a ticket instead of a credential."""
    served_read_only: bool = False
    """Whether a route that changes something is served where the database is only read."""
    prefixed: bool = True
    connection: Connection | None = None
    """The function that serves a WebSocket at the same path."""
    media: str = "application/json"
    described: bool = True
    """False for pages and files of the dashboard, which are no part of the API."""
    problems: tuple[str, ...] = ()
    """Error statuses that other routes of the method do not have."""


class _Node:
    """The routes below one segment of a path."""

    __slots__ = ("by_method", "literal", "name", "parameter", "rest")

    def __init__(self) -> None:
        self.literal: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        self.rest: _Node | None = None
        """The routes of every longer path, for `{*rest}`."""
        self.name = ""
        self.by_method: dict[str, Route] = {}

    def below(self, segment: str) -> "_Node":
        if not segment.startswith("{"):
            return self.literal.setdefault(segment.encode(), _Node())
        if segment.startswith("{*"):
            self.rest = self.rest or _Node()
            return self.rest
        if self.parameter is None:
            self.parameter = _Node()
            self.parameter.name = segment.strip("{}")
        return self.parameter


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            for prefix in PREFIXES if route.prefixed else ("",):
                node = self._root
                for segment in (prefix + route.path).split("/")[1:]:
                    node = node.below(segment)
                node.by_method[route.method] = route

    def find(self, method: str, path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route and its decoded path parameters.

        Raises:
            NotFound: The path has no route.
            MethodNotAllowed: The path has routes for other methods only.
            Invalid: A segment of the path cannot be decoded.
        """
        segments = path.split(b"/")[1:]
        parameters: list[tuple[str, bytes]] = []
        node = _walk(self._root, segments, 0, parameters)
        if node is None:
            raise NotFound(f"no route for {path.decode('ascii', 'replace')}", code="no_route")
        route = node.by_method.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(method, sorted(node.by_method))
        return route, {name: _decoded(segment) for name, segment in parameters}


class MethodNotAllowed(AssayError):
    """The path has routes, but not for this method."""

    code = "method_not_allowed"
    kind = Kind.INVALID

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed for this path; allowed: {', '.join(allowed)}")
        self.allowed = allowed


def _walk(node: _Node, segments: Sequence[bytes], at: int, found: list[tuple[str, bytes]]) -> _Node | None:
    """Return the node at the end of the segments, or None.

    A literal segment is tried first, and then a parameter: a workflow id may be `poll`.
    """
    if at == len(segments):
        return node if node.by_method else None
    segment = segments[at]
    literal = node.literal.get(segment)
    if literal is not None:
        end = _walk(literal, segments, at + 1, found)
        if end is not None:
            return end
    parameter = node.parameter
    if parameter is not None and segment:
        end = _walk(parameter, segments, at + 1, found)
        if end is not None:
            found.append((parameter.name, segment))
            return end
    return node.rest


def _decoded(segment: bytes) -> str:
    if b"%" not in segment and segment.isascii():
        return segment.decode("ascii")
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("a part of the path is not UTF-8", code="invalid_path") from None
    if "\0" in text:
        raise Invalid("a part of the path contains U+0000, which no name may contain", code="invalid_path")
    return text
