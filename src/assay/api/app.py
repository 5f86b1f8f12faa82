"""The ASGI application: guard, route, react, answer. Nothing that a caller does is a server error (D5)."""

import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from assay.api import answers, guard
from assay.api.answers import Answer
from assay.api.backend import Backend
from assay.api.call import Call, Receive, Scope, Send
from assay.api.router import Connection, MethodNotAllowed, Route, Router
from assay.api.routes.table import ROUTES
from assay.api.stream import EventStream
from assay.core.errors import AssayError, Failure, NotFound, ReadOnly, Refused

log = logging.getLogger("assay.api")

UNKNOWN: Final = "unknown"
NONE: Final[Mapping[str, Any]] = {}
REPLY: Final = "assay.reply"
"""Among the extensions of a scope: `reply(status, lines, body)` sends a whole answer, or says that it cannot."""
INTERNAL: Final = answers.error(Failure("the engine made a mistake; its log says more", kind="INTERNAL"))


class Api:
    """The engine over HTTP."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._router = Router(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request, as ASGI has it."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(scope, receive, {})
        try:
            answer = await self._react(call)
            if isinstance(answer, EventStream):
                await answer.send(call, send)
            else:
                await _send(call, answer, send)
        finally:
            call.done()
        self.backend.telemetry.answered(call.operation or UNKNOWN, answer.status)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A connection that stays; a page of another site is no more welcome to it than to a change."""
        call = Call({**scope, "method": "POST"}, receive, {})
        try:
            guard.check(call, self.backend.settings)
            await self._connection(call)(self.backend, call, receive, send)
        except AssayError as problem:
            log.info("a WebSocket was refused: %s", problem)
            answer = answers.error(problem)
            await send({"type": "websocket.http.response.start", "status": answer.status, "headers": answer.head()})
            await send({"type": "websocket.http.response.body", "body": answer.body})

    def _connection(self, call: Call) -> Connection:
        """Who talks on a WebSocket; all else that is served at its address is no help to somebody who wants one."""
        with contextlib.suppress(MethodNotAllowed):
            route, call.parameters = self._router.find(call.method, call.path)
            if route.connection is not None:
                self._check_change(route)
                return route.connection
        raise NotFound("there is no WebSocket here", code="no_route")

    def _check_change(self, route: Route) -> None:
        """Raise `ReadOnly` for a change, and for every request of a worker, where the database is only read."""
        if self.backend.settings.read_only and route.method != "GET":
            raise ReadOnly

    async def _react(self, call: Call) -> Answer | EventStream:
        try:
            guard.check(call, self.backend.settings)
            route, call.parameters = self._router.find(call.method, call.path)
            call.operation = route.operation_id
            self._check_change(route)
            return await route.reaction(self.backend, call)
        except MethodNotAllowed as problem:
            return answers.error(problem, [(b"allow", ", ".join(problem.allowed).encode())])
        except AssayError as problem:
            return answers.error(_about(problem, call))
        except Exception:
            log.exception("%s %s failed", call.method, call.operation or UNKNOWN)
            return INTERNAL


def _about(problem: AssayError, call: Call) -> AssayError:
    """The problem, with the workflow that the path names, if it was about one and does not say so itself (D5)."""
    if isinstance(problem, NotFound | Refused) and problem.workflow_id is None and "workflow_id" in call.parameters:
        problem.workflow_id, problem.run_id = call.parameters["workflow_id"], problem.run_id or call.text("run_id")
    return problem


async def _send(call: Call, answer: Answer, send: Send) -> None:
    body = b"" if call.method == "HEAD" else answer.body
    lines, reply = answer.lines(), call.scope.get("extensions", NONE).get(REPLY)
    if lines is not None and reply is not None and reply(answer.status, lines, body):
        return
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.head()})
    await send({"type": "http.response.body", "body": body})
