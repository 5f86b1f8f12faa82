"""Wait until a run is closed, or follow its events.

Requests are repeated while an engine restarts. An engine that has never responded is an error at once.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from assay.cli.client import RETRYABLE_STATUSES, EngineResponse, RemoteEngine, RequestRefused, UnreachableError
from assay.sdk.client.http.http1 import HISTORY_PAGE_EVENTS

CLOSED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"})
CLOSING: Final = frozenset(
    {
        "WorkflowCompleted",
        "WorkflowFailed",
        "WorkflowCancelled",
        "WorkflowTerminated",
        "WorkflowTimedOut",
        "WorkflowContinuedAsNew",
    }
)
"""The last events of closed runs."""
LONG_POLL_SECONDS: Final = 20.0
SHORT_POLL_SECONDS: Final = 0.5
WATCH_SECONDS: Final = 2.0
AWAY_SECONDS: Final = 30.0
"""The time for which an engine that has responded before may be unreachable."""


class RunWatcher:
    """Repeated requests about a workflow, until a deadline."""

    def __init__(self, engine: RemoteEngine, workflow_id: str, seconds: float | None = None) -> None:
        self._engine = engine
        self._id = workflow_id
        self._end = None if seconds is None else time.monotonic() + seconds
        self._answered = False
        self._lost: float | None = None

    @property
    def left(self) -> float:
        """Return the seconds until the deadline."""
        return max(self._end - time.monotonic(), 0) if self._end is not None else float("inf")

    # until it closes

    def outcome(self, run_id: str | None = None, *, follow: bool = True) -> dict[str, Any] | None:
        """Return the result of the run, or None at the deadline; `follow` includes the next runs of its chain."""
        while True:
            # The first request does not wait: its response proves that the engine and the run exist.
            answer = self._result(min(LONG_POLL_SECONDS, self.left) if self._answered else 0, run_id, follow=follow)
            document: dict[str, Any] = answer.document
            if answer.status == 200:
                return document
            if not self.left:
                return None
            run_id = document["run_id"]  # a later start of the same id is another run, and does not count

    def status(self, target: str) -> dict[str, Any] | None:
        """Return the record of the workflow when its newest run has the status `target`, or None at the deadline.

        A run that closes with another status does not end the wait: a later run of the id may reach the status.
        """
        while True:
            record: dict[str, Any] = self._ask(lambda: self._engine.get("workflows", self._id)).document
            if record["status"] == target:
                return record
            if not self.left:
                return None
            if target in CLOSED and record["status"] not in CLOSED:
                self._result(min(LONG_POLL_SECONDS, self.left), record["run_id"], follow=True)
            else:
                pause(min(SHORT_POLL_SECONDS, self.left))

    def _result(self, seconds: float, run_id: str | None, *, follow: bool) -> EngineResponse:
        """Wait until the run is closed; pause after the early response of an engine that is stopping."""
        began = time.monotonic()
        chain = None if follow else "false"
        answer = self._ask(
            lambda: self._engine.get("workflows", self._id, "result", wait_secs=seconds, run_id=run_id, follow=chain)
        )
        early = seconds - (time.monotonic() - began)
        if answer.status != 200 and early > 0:
            pause(min(early, SHORT_POLL_SECONDS))
        return answer

    # event by event

    def events(self, run_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Return the events of a run while they are recorded, until the run is closed."""
        seen, closed = 0, False
        while True:
            page = self._page(run_id, seen)
            for event in page:
                run_id, seen = event["run_id"], event["seq"]
                yield event
                if event["event_type"] in CLOSING:
                    return
            if len(page) == HISTORY_PAGE_EVENTS:
                continue
            if closed:
                return
            closed = self._result(SHORT_POLL_SECONDS, run_id, follow=False).status == 200

    def _page(self, run_id: str | None, seen: int) -> list[dict[str, Any]]:
        page: list[dict[str, Any]] = self._ask(
            lambda: self._engine.get(
                "workflows", self._id, "events", run_id=run_id, cursor=seen, limit=HISTORY_PAGE_EVENTS, order="asc"
            )
        ).document
        return page

    # patience

    def _ask(self, question: Callable[[], EngineResponse]) -> EngineResponse:
        while True:
            try:
                answer = question()
            except (UnreachableError, RequestRefused) as error:
                if (
                    not (isinstance(error, UnreachableError) or error.status in RETRYABLE_STATUSES)
                    or not self._may_return()
                ):
                    raise
                pause(min(SHORT_POLL_SECONDS, self.left))
            else:
                self._answered, self._lost = True, None
                return answer

    def _may_return(self) -> bool:
        """Return whether to wait for an engine that does not respond."""
        now = time.monotonic()
        self._lost = now if self._lost is None else self._lost
        return self._answered and now - self._lost < AWAY_SECONDS and self.left > 0


def history(engine: RemoteEngine, workflow_id: str, run_id: str | None) -> list[dict[str, Any]]:
    """Return all events of a run up to now."""
    found: list[dict[str, Any]] = []
    while True:
        seen = found[-1]["seq"] if found else 0
        page = engine.get(
            "workflows", workflow_id, "events", run_id=run_id, cursor=seen, limit=HISTORY_PAGE_EVENTS, order="asc"
        )
        found += page.document
        if len(page.document) < HISTORY_PAGE_EVENTS:
            return found
        run_id = found[-1]["run_id"]


def repeated(read: Callable[[], list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Return a list repeatedly; wait for an engine that restarts."""
    lost: float | None = None
    answered = False
    while True:
        try:
            found = read()
        except (UnreachableError, RequestRefused) as error:
            passing = isinstance(error, UnreachableError) or error.status in RETRYABLE_STATUSES
            lost = time.monotonic() if lost is None else lost
            if not answered or not passing or time.monotonic() - lost > AWAY_SECONDS:
                raise
        else:
            answered, lost = True, None
            yield found
        pause(WATCH_SECONDS)


def pause(seconds: float) -> None:
    """Sleep; Ctrl-C ends the sleep at once."""
    import threading

    threading.Event().wait(seconds)
