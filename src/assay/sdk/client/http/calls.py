"""Client calls as HTTP requests, repeated under the same idempotency key while their outcome is unknown."""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from assay.core.model import requests as rq
from assay.core.model.errors import Invalid, NotFound, Unavailable
from assay.core.model.events import Event
from assay.core.model.ids import RunKey, Time, seconds
from assay.core.model.payload import NULL
from assay.core.model.policies import IdConflict, IdReuse
from assay.core.model.replies import Started
from assay.core.model.start_options import Convert, OptionKind, by_option, given_options
from assay.sdk.client.connections import DEFAULT_TIMEOUT_SECONDS
from assay.sdk.client.http import endings
from assay.sdk.client.http.http1 import (
    ANSWER_GRACE_SECONDS,
    BUSY_CODES,
    BUSY_RETRY_SECONDS,
    FIRST_RETRY_SECONDS,
    HISTORY_PAGE_EVENTS,
    HOLD_SECONDS,
    LONGEST_RETRY_SECONDS,
    REFUSED_KEY_STATUS,
    RESTARTING_STATUSES,
    EngineUnreachable,
    path_of,
    query_of,
)
from assay.sdk.client.http.pool import HttpPool
from assay.sdk.client.http.problems import error_in
from assay.sdk.ports import ListedRuns
from assay.sdk.values.retry import wire_retry
from assay.wire.request_bodies import SignalAtStart, StartBody

FIRST_CONNECT_SECONDS: Final = 2.0
"""Seconds for which a call is repeated to an engine that has never responded, and may not exist. A time limit that the
program sets replaces this one."""
LOGGED_AFTER_SECONDS: Final = 5.0
"""Seconds without an engine after which a call that waits is logged."""
TAKEN_UP_SECONDS: Final = 1.0
"""Seconds after which an interrupted attempt counts as accepted by the engine."""
ANSWER_SECONDS: Final = HOLD_SECONDS + ANSWER_GRACE_SECONDS
NEXT_CURSOR: Final = b"x-next-cursor"
OPEN: Final = frozenset({"PENDING", "RUNNING", "WAITING"})

log = logging.getLogger("assay.client")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Calls:
    """The calls of a client to one engine."""

    def __init__(self, pool: HttpPool, timeout_seconds: float) -> None:
        self._pool = pool
        self._timeout_seconds = timeout_seconds
        self._has_answered = timeout_seconds != DEFAULT_TIMEOUT_SECONDS
        """True once the engine has responded, or if the program set a time limit: calls then wait for all of it."""

    # changes

    async def ask(self, request: rq.Request) -> Any:
        """Send the request of a change; return the engine's reply."""
        if isinstance(request, rq.StartWorkflow):
            return await self.start(request)
        change = _CHANGES.get(type(request))
        if change is None:
            raise Invalid(f"{type(request).__name__} cannot be asked for over HTTP")
        target = cast(rq.ToWorkflow, request)
        answer = await self._change(target, *change(request))
        return endings.started_of(target.namespace, endings.decode(answer)) if answer else None

    async def retry(self, request: rq.RetryFailed) -> dict[str, Any]:
        """Continue a closed run as a new run; return the engine's record."""
        body = _given(requested_by=request.requested_by, reason=request.reason, from_seq=request.from_seq)
        answer: dict[str, Any] = _decode(await self._change(request, "retry", body))
        return answer

    async def _change(self, target: rq.ToWorkflow, action: str, body: dict[str, Any]) -> bytes:
        query = _query(namespace=target.namespace, run_id=target.run_id)
        path = f"{path_of('workflows', target.workflow_id)}/{action}{query}"
        return await self.call("POST", path, _encode(body), key=uuid.uuid4().hex)

    async def start(self, request: rq.StartWorkflow) -> Started:
        """Start a workflow."""
        answer = await self.call("POST", "/workflows", _start_body(request), key=_start_key(request))
        return endings.started_of(request.namespace, endings.decode(answer))

    async def run(self, request: rq.StartWorkflow) -> tuple[Started, tuple[RunKey, Event]]:
        """Start a workflow and wait for the end of its chain."""
        path = f"/workflows?wait_secs={HOLD_SECONDS:g}"
        answer = endings.decode(await self.call("POST", path, _start_body(request), key=_start_key(request)))
        started = endings.started_of(request.namespace, answer)
        return started, await self._ended(started.key, answer)

    # reads

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait for the end of a run, or of its chain; return the run that ended and its closing event."""
        return await self._ended(key, None, follow=follow)

    async def _ended(
        self, key: RunKey, answer: endings.ResultBody | None, *, follow: bool = True
    ) -> tuple[RunKey, Event]:
        while answer is None or answer.status in OPEN:
            query = _query(namespace=key.namespace, run_id=key.run_id, wait_secs=f"{HOLD_SECONDS:g}")
            path = f"{path_of('workflows', key.workflow_id, 'result')}{query}{'' if follow else '&follow=false'}"
            answer = endings.decode(await self._get(path, key.workflow_id))
        return endings.key_of(key.namespace, answer), endings.closing_of(answer)

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None) -> dict[str, Any] | None:
        """Return the record of a run, or None."""
        query = _query(namespace=namespace, run_id=run_id)
        return await self._found(f"{path_of('workflows', workflow_id)}{query}")

    async def explain(self, namespace: str, workflow_id: str, run_id: str | None) -> dict[str, Any]:
        """Return what a run waits for."""
        query = _query(namespace=namespace, run_id=run_id)
        record: dict[str, Any] = _decode(
            await self.call("GET", f"{path_of('workflows', workflow_id, 'waiting')}{query}")
        )
        return record

    async def state(self, namespace: str, workflow_id: str, name: str | None) -> dict[str, Any] | None:
        """Return the latest answers of a run's queries, or None."""
        path = path_of("workflows", workflow_id, "state", *(() if name is None else (name,)))
        return await self._found(f"{path}{_query(namespace=namespace)}")

    async def _found(self, path: str) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = _decode(await self.call("GET", path))
        except NotFound:
            return None
        return record

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """Return a page of records of runs, newest first, with the cursor of the next page if more runs follow."""
        given = {name: value for name, value in filters.items() if value is not None}
        if "search_attrs" in given:
            given["search_attrs"] = _encode(given["search_attrs"]).decode()
        headers: dict[bytes, bytes] = {}
        answer = await self.call("GET", f"/workflows{_query(namespace=namespace, **given)}", headers=headers)
        cursor = headers.get(NEXT_CURSOR)
        return ListedRuns(_decode(answer), None if cursor is None else cursor.decode("ascii"))

    async def events(self, namespace: str, workflow_id: str, run_id: str | None) -> Sequence[dict[str, Any]]:
        """Return a history as records, read page by page."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["seq"] if found else None
            query = _query(namespace=namespace, run_id=run_id, limit=HISTORY_PAGE_EVENTS, cursor=after)
            page = _decode(await self._get(f"{path_of('workflows', workflow_id, 'events')}{query}", workflow_id))
            found.extend(page)
            if len(page) < HISTORY_PAGE_EVENTS:
                return found

    async def _get(self, path: str, workflow_id: str) -> bytes:
        """Return the body at a path below a workflow; raise `NotFound` with the same text as an embedded engine."""
        try:
            return await self.call("GET", path)
        except NotFound as error:
            raise NotFound(f"workflow {workflow_id} not found", code=error.code) from None

    # requests

    async def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = None,
        headers: dict[bytes, bytes] | None = None,
    ) -> bytes:
        """Return the body of the response; store its headers in `headers` if a dict is given.

        The request is repeated while a repetition can help and the caller's time limit has not passed.
        """
        effort = Backoff()
        while True:
            effort.begin()
            try:
                status, answer = await self._pool.request(method, path, body, ANSWER_SECONDS, key, headers)
                self._has_answered = True
                if status < 300:
                    return answer
                error = error_in(status, answer)
                if status == REFUSED_KEY_STATUS and self._pool.renew_credential():
                    continue
                if status == 429 and error.code in BUSY_CODES and await effort.again_when_busy(self._timeout_seconds):
                    continue
                if status not in RESTARTING_STATUSES:
                    raise error
                self._pool.turn_to_next()
                trouble = str(error)
            except TimeoutError:
                trouble = "no answer came"
            except EngineUnreachable as problem:
                trouble = str(problem)
            except OSError as problem:
                self._has_answered = True  # the connection was open: an engine exists
                effort.interrupted()
                trouble = str(problem) or type(problem).__name__
            if self._pool.closed:
                raise Unavailable("this client is closed: connect again", code="client_closed")
            if not await effort.again(self._timeout_seconds if self._has_answered else FIRST_CONNECT_SECONDS):
                raise Unavailable(f"the engine at {self._pool.url} cannot be reached: {trouble}", code="unreachable")
            effort.log(self._pool.url, trouble, self._timeout_seconds)


class Backoff:
    """The retries of one call: pauses that grow, and the time since the first failure."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._trying = 0.0
        self._failing: float | None = None
        self._pause = FIRST_RETRY_SECONDS
        self._is_logged = False

    def begin(self) -> None:
        """Note the start of an attempt."""
        self._trying = self._loop.time()

    def interrupted(self) -> None:
        """Note that the engine accepted the attempt and then went away; a long attempt resets the time of failure."""
        if self._loop.time() - self._trying > TAKEN_UP_SECONDS:
            self._failing, self._pause = None, FIRST_RETRY_SECONDS

    async def again_when_busy(self, patience: float) -> bool:
        """Pause as a busy engine requires; return False if the engine has been busy for longer than `patience`."""
        now = self._loop.time()
        self._failing = now if self._failing is None else self._failing
        if now + BUSY_RETRY_SECONDS > self._failing + patience:
            return False
        await asyncio.sleep(BUSY_RETRY_SECONDS * random.uniform(1.0, 1.5))  # noqa: S311  # spreads load
        return True

    async def again(self, patience: float) -> bool:
        """Pause before the next attempt; return False if attempts have failed for longer than `patience`."""
        now = self._loop.time()
        self._failing = now if self._failing is None else self._failing
        if now + self._pause > self._failing + patience:
            return False
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreads load, hides nothing
        self._pause = min(2 * self._pause, LONGEST_RETRY_SECONDS)
        return True

    def log(self, url: str, trouble: str, limit: float) -> None:
        """Log once that a call waits for its engine."""
        failing = self._loop.time() if self._failing is None else self._failing
        if not self._is_logged and self._loop.time() - failing >= LOGGED_AFTER_SECONDS:
            self._is_logged = True
            log.warning("no engine at %s (%s); this call waits for it, up to %g s", url, trouble, limit)


def _query(*, namespace: str, **parameters: Any) -> str:
    return query_of({"namespace": None if namespace == "main" else namespace, **parameters})


def _span(time: Time | None) -> float | None:
    return None if time is None else seconds(time)


def _start_key(request: rq.StartWorkflow) -> str | None:
    """Return the idempotency key of a start that may attach to a run: a repetition must not add its messages again."""
    return request.request_id if request.id_conflict_policy is IdConflict.USE_EXISTING else None


def _start_body(request: rq.StartWorkflow) -> bytes:
    """Return the body of a start. The request id makes repetitions the same start, so no idempotency key is needed."""
    return _encode(
        StartBody(
            workflow_type=request.workflow_type,
            workflow_id=request.workflow_id,
            request_id=request.request_id or f"r-{uuid.uuid4().hex}",
            namespace=_unless(request.namespace, "main"),
            task_queue=_unless(request.task_queue, "default"),
            input=request.input,
            id_conflict_policy=_unless(request.id_conflict_policy, IdConflict.FAIL),
            signals=[_first_signal(signal) for signal in request.signals] or None,
            **given_options(request, _SPELLINGS),
        )
    )


def _first_signal(signal: rq.FirstSignal) -> SignalAtStart:
    if signal.args:
        return SignalAtStart(name=signal.name, args=list(signal.args), sender=signal.sender)
    return SignalAtStart(name=signal.name, payload=signal.payload, sender=signal.sender)


def _unless(value: str, default: str) -> str | None:
    return None if value == default else value


_SPELLINGS: Final[dict[str, Convert]] = by_option(
    {
        OptionKind.DURATION: lambda time, _: seconds(time),
        OptionKind.RETRY: lambda policy, _: wire_retry(policy),
        OptionKind.REUSE: lambda policy, _: _unless(policy, IdReuse.ALLOW_DUPLICATE),
    }
)
"""Conversions of request options to body fields: the reverse of `OPTION_PARSERS`."""


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value is not NULL}


def _signal(request: rq.Signal) -> tuple[str, dict[str, Any]]:
    args = list(request.args) or None
    body = _given(payload=request.payload, args=args, context=request.context, message_id=request.message_id)
    return f"signal{path_of(request.name)}", body | _given(**{"from": request.sender})


def _cancel(request: rq.RequestCancel) -> tuple[str, dict[str, Any]]:
    body = _given(reason=request.reason, deadline=_span(request.deadline))
    return "cancel", body | _given(**{"from": request.sender})


def _next_input(request: rq.RestartAsNew) -> dict[str, Any]:
    """Return the body's fields for the input; without them the engine keeps the input of the previous run."""
    if request.keep_input:
        return {}
    return _given(input=request.input) or {"input": None, "keep_input": False}


_CHANGES: Final[dict[type[rq.Request], Callable[[Any], tuple[str, dict[str, Any]]]]] = {
    rq.Signal: _signal,
    rq.RequestCancel: _cancel,
    rq.Terminate: lambda request: ("terminate", _given(reason=request.reason)),
    rq.RestartAsNew: lambda request: ("continue-as-new", _next_input(request)),
}
