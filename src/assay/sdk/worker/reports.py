"""Reports that must arrive: sent again, unchanged, while their outcome is unknown."""

import asyncio
import functools
import logging
from typing import Any

from assay.core.model.errors import AssayError, Kind, NotFound, Refused
from assay.core.model.failure import FailureInfo
from assay.core.model.requests import CancelledActivity, CompleteActivity, FailActivity, Request
from assay.sdk.client.transport import Transport

log = logging.getLogger("assay.worker")
FIRST_REPEAT_SECONDS = 0.1
LONGEST_REPEAT_SECONDS = 5.0
OUTCOMES = (CompleteActivity, FailActivity, CancelledActivity)


def unsure(error: AssayError | None) -> bool:
    """Return True if the outcome is unknown, so that the same request must be sent again; a refusal is an outcome."""
    return error is not None and error.kind is Kind.UNAVAILABLE


def over(error: AssayError) -> bool:
    """Return True if the worker no longer holds the subject of a request, so that the report is obsolete."""
    return isinstance(error, Refused | NotFound)


def _failed(request: CompleteActivity | FailActivity | CancelledActivity, error: AssayError) -> FailActivity:
    """Return the failure of an attempt whose outcome the engine cannot record."""
    message = f"the outcome of this attempt cannot be recorded: {error}"
    failure = FailureInfo(kind=error.kind, message=message, type=error.code, source="activity")
    return FailActivity(request.run_id, request.seq, request.attempt_id, failure)


class Reports:
    """Sends requests whose replies change nothing in the worker; a refusal mostly means that the report was late."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._closed = False
        self.unanswered = 0

    def send(self, request: Request, pause: float = FIRST_REPEAT_SECONDS, *, instead: bool = False) -> None:
        """Send a request until it has a reply; `instead` marks the replacement of an outcome that was refused."""
        self.unanswered += 1
        self._transport.send(request, functools.partial(self._noted, request, pause, instead))

    def _noted(self, request: Request, pause: float, instead: bool, _reply: Any, error: AssayError | None) -> None:
        self.unanswered -= 1
        if error is None or over(error):
            return
        if unsure(error):
            if self._closed:
                return
            again = min(2 * pause, LONGEST_REPEAT_SECONDS)
            self.unanswered += 1
            asyncio.get_running_loop().call_later(pause, self._again, request, again, instead)
        elif isinstance(request, OUTCOMES) and not instead:
            self.send(_failed(request, error), instead=True)
        else:
            log.error("%s was not accepted: %s", type(request).__name__, error)

    def _again(self, request: Request, pause: float, instead: bool) -> None:
        self.unanswered -= 1
        if not self._closed:
            self.send(request, pause, instead=instead)

    def close(self) -> None:
        """Send nothing more: the engine detects a stopped worker by its silence."""
        self._closed = True
