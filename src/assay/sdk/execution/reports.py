"""Reports that must arrive: sent again, unchanged, for as long as nobody knows whether they did (4.3)."""

import asyncio
import functools
from typing import Any

from assay.core.errors import AssayError, Kind
from assay.core.requests import Request
from assay.sdk.transport import Transport

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


def unsure(error: AssayError | None) -> bool:
    """Is the outcome unknown, so that the same request may and must be sent again? A refusal is an answer."""
    return error is not None and error.kind is Kind.UNAVAILABLE


class Reports:
    """Sends requests whose answer changes nothing here; a refusal means that they came too late, which is as well."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._closed = False
        self.unanswered = 0

    def tell(self, request: Request, pause: float = FIRST_PAUSE) -> None:
        """Send a request until it is answered."""
        self.unanswered += 1
        self._transport.send(request, functools.partial(self._noted, request, pause))

    def _noted(self, request: Request, pause: float, _reply: Any, error: AssayError | None) -> None:
        self.unanswered -= 1
        if unsure(error) and not self._closed:
            again = min(2 * pause, LONGEST_PAUSE)
            self.unanswered += 1
            asyncio.get_running_loop().call_later(pause, self._again, request, again)

    def _again(self, request: Request, pause: float) -> None:
        self.unanswered -= 1
        if not self._closed:
            self.tell(request, pause)

    def close(self) -> None:
        """Send nothing any more: whoever is gone from here is found out by silence (R9)."""
        self._closed = True
