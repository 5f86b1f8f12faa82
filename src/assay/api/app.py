"""The ASGI application: guard, find the route, authorize, call the route, send the response.

A caller's mistake is always a 4xx with a stable code; a 500 is a bug of the engine.
"""

import contextlib
import logging
from collections.abc import Mapping
from posixpath import normpath
from typing import Any, Final
from urllib.parse import unquote

from msgspec import structs

from assay.api import answers, guard
from assay.api.access import PUBLIC, NamespaceSource, require
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, Receive, Scope, Send
from assay.api.exposure import PREFLIGHT_HEADERS
from assay.api.router import Connection, MethodNotAllowed, Route, Router
from assay.api.routes.api_keys import NO_BOOTSTRAP
from assay.api.routes.table import ROUTES
from assay.api.stream import EventStream
from assay.auth.permissions import ALL_NAMESPACES, Permission
from assay.core.model.errors import AssayError, Failure, NotFound, ReadOnly, Refused
from assay.wire.errors import Forbidden, Unauthorized, status_of

log = logging.getLogger("assay.api")

UNKNOWN: Final = "unknown"
UNAUTHORIZED: Final = 401
BOOTSTRAP: Final = "createApiKey"
"""The operation that a caller without a credential may use once, to create the first key."""
METRICS: Final = "getMetrics"
_ABOVE_PREFIXES: Final = "/api"
NO_EXTENSIONS: Final[Mapping[str, Any]] = {}
REPLY: Final = "assay.reply"
"""An extension of the ASGI scope: `reply(status, lines, body)` sends a whole response, or returns False."""
INTERNAL: Final = Failure("Internal error; see the server log", kind="INTERNAL")
ERROR_STATUS: Final = 400
REQUEST_ID: Final = b"x-request-id"


class Api:
    """The ASGI application that serves one engine."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        opened = {METRICS} if backend.settings.metrics_public else frozenset()
        self._router = Router(
            structs.replace(route, access=PUBLIC) if route.operation_id in opened else route for route in ROUTES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an HTTP request or a WebSocket, as ASGI specifies."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = ApiCall(scope, receive, {})
        try:
            answer = await self._react(call)
            if isinstance(answer, EventStream):
                await answer.send(call, send)
            else:
                if answer.status >= ERROR_STATUS:  # a repeated refusal is sent as it was rendered the first time
                    named = any(name == REQUEST_ID for name, _ in answer.headers)
                    echoed = None if named else call.request_id
                else:
                    echoed = call.given_request_id
                if echoed is not None:
                    call.extra_headers = (*call.extra_headers, (REQUEST_ID, echoed.encode()))
                await _send(call, answer.with_headers(call.extra_headers) if call.extra_headers else answer, send)
        finally:
            call.done()
        self.backend.telemetry.answered(call.operation or UNKNOWN, answer.status)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket. Its handshake is checked like a POST, so that pages of other sites are refused."""
        call = ApiCall({**scope, "method": "POST"}, receive, {})
        try:
            guard.check(call, self.backend.settings)
            await self._authorize(call, self._find(call)[0])
            await self._connection(call)(self.backend, call, receive, send)
        except AssayError as problem:
            self._note_refusal(call, problem)
            log.info("a WebSocket was refused (request %s): %s", call.request_id, problem)
            answer = answers.error(problem, _challenge(problem), call.request_id)
            await send({"type": "websocket.http.response.start", "status": answer.status, "headers": answer.head()})
            await send({"type": "websocket.http.response.body", "body": answer.body})

    def _connection(self, call: ApiCall) -> Connection:
        """Return the WebSocket function of the path; raise `NotFound` if the path serves plain HTTP only."""
        with contextlib.suppress(MethodNotAllowed):
            route, call.parameters = self._router.find(call.method, call.path)
            if route.connection is not None:
                self._check_change(route)
                return route.connection
        raise NotFound("there is no WebSocket here", code="no_route")

    def _check_change(self, route: Route) -> None:
        """Raise `ReadOnly` for a change, and for every request of a worker, where the database is only read."""
        if self.backend.settings.read_only and route.method != "GET" and not route.served_read_only:
            raise ReadOnly

    def _find(self, call: ApiCall) -> tuple[Route | None, AssayError | None]:
        """Return the route of a request, or the error for a missing route.

        The error is returned and not raised: callers without a credential get a 401 first.
        """
        try:
            route, call.parameters = self._router.find(call.method, call.path)
        except AssayError as problem:
            return None, problem
        call.operation = route.operation_id
        return route, None

    async def _authorize(self, call: ApiCall, route: Route | None) -> None:
        """Authenticate the caller, and raise an error if the caller lacks the permission of the route.

        Below the prefix of the API a caller without a credential gets a 401, whether the path exists or not.
        """
        auth = self.backend.auth
        if route is not None and route.ticket and (ticket := call.text("ticket")) is not None:
            call.ticket = await auth.redeem(call, ticket)
            call.principal = call.ticket.principal()
            return
        if route.access is PUBLIC if route is not None else not _below_prefix(call.path):
            return
        if not auth.settings.is_on:
            self._count(call)
            return
        try:
            call.principal = await auth.authenticate(call, by_cookie=not _is_for_workers(route))
        except Unauthorized:
            if route is None or route.operation_id != BOOTSTRAP or call.header(b"authorization") is not None:
                raise
            if not await auth.may_bootstrap(call):
                raise Unauthorized(NO_BOOTSTRAP) from None
            call.anonymous = True
        self._count(call)
        if route is not None:
            _require(call, route)

    def _count(self, call: ApiCall) -> None:
        """Raise `TooManyRequests` if the operator has set a limit and the caller has exceeded it."""
        rates = self.backend.request_rates
        if rates is not None:
            rates.check(call, self.backend.engine.now())

    def _note_refusal(self, call: ApiCall, problem: AssayError) -> None:
        """Log a missing or wrong credential, and audit a role that grants too little."""
        if isinstance(problem, Forbidden):
            if self.backend.auditor is not None:
                self.backend.auditor.refuse(call, problem)
        elif status_of(problem) == UNAUTHORIZED:
            log.info("a request of %s had no valid credential (request %s): %s", call.address, call.request_id, problem)

    async def _react(self, call: ApiCall) -> HttpResponse | EventStream:
        try:
            guard.check(call, self.backend.settings)
            if call.method == "OPTIONS" and call.cors_origin is not None:
                return HttpResponse(204, headers=PREFLIGHT_HEADERS)
            route, problem = self._find(call)
            await self._authorize(call, route)
            if route is None:
                raise problem or NotFound("there is nothing here", code="no_route")
            self._check_change(route)
            return await route.reaction(self.backend, call)
        except MethodNotAllowed as problem:
            return answers.error(problem, [(b"allow", ", ".join(problem.allowed).encode())], call.request_id)
        except AssayError as problem:
            self._note_refusal(call, problem)
            return answers.error(_about(problem, call), _challenge(problem), call.request_id)
        except Exception:
            log.exception("%s %s failed (request %s)", call.method, call.operation or UNKNOWN, call.request_id)
            return answers.error(INTERNAL, (), call.request_id)


def _below_prefix(path: bytes) -> bool:
    """Return whether a path without a route is meant for the API, in any spelling: `//`, `%2e%2e`, upper case."""
    plain = normpath("/" + unquote(path.decode("latin-1")).replace("\\", "/").lstrip("/")).lower()
    return plain == _ABOVE_PREFIXES or plain.startswith(_ABOVE_PREFIXES + "/")


def _about(problem: AssayError, call: ApiCall) -> AssayError:
    """Return the error with the workflow id of the path, if the error is about a run and names no workflow."""
    if isinstance(problem, NotFound | Refused) and problem.workflow_id is None and "workflow_id" in call.parameters:
        problem.workflow_id, problem.run_id = call.parameters["workflow_id"], problem.run_id or call.text("run_id")
    return problem


def _is_for_workers(route: Route | None) -> bool:
    return route is not None and route.access.permission is Permission.WORK


def _require(call: ApiCall, route: Route) -> None:
    """Raise an error if the caller lacks the permission of a route, for routes whose request line has the namespace."""
    permission = route.access.permission
    if permission is None:
        return
    match route.access.where:
        case NamespaceSource.QUERY:
            require(call.principal, permission, call.namespace)
        case NamespaceSource.PATH:
            require(call.principal, permission, call.parameters["name"])
        case NamespaceSource.ALL:
            require(call.principal, permission, ALL_NAMESPACES)
        case NamespaceSource.SHOWN | NamespaceSource.CONTENT | NamespaceSource.NOWHERE:
            pass  # the route itself checks the namespaces of its content


def _challenge(problem: AssayError) -> list[Header]:
    return [(b"www-authenticate", b"Bearer")] if status_of(problem) == UNAUTHORIZED else []


async def _send(call: ApiCall, answer: HttpResponse, send: Send) -> None:
    body = b"" if call.method == "HEAD" else answer.body
    # Fast path: our server writes status, headers and body in a single call, without two ASGI messages.
    lines, reply = answer.lines(), call.scope.get("extensions", NO_EXTENSIONS).get(REPLY)
    if lines is not None and reply is not None and reply(answer.status, lines, body):
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.head()})
    await send({"type": "http.response.body", "body": body})
