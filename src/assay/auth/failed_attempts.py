"""Rate limits of failed credentials by client address and by key prefix; valid callers are never limited."""

from collections import OrderedDict
from typing import Final

from assay.core.model.ids import SECOND, Time

ATTEMPTS_PER_MINUTE: Final = 300
MAX_REMEMBERED_SOURCES: Final = 10_000
_PER_ATTEMPT: Final[Time] = 60 * SECOND // ATTEMPTS_PER_MINUTE
_BURST: Final[Time] = 60 * SECOND


class FailedAttempts:
    """A leaky bucket for each source of failed credentials.

    A bucket is stored as the time at which it will be empty: an attempt adds 200 ms, a full bucket is a minute ahead.
    """

    def __init__(self) -> None:
        self._drained_at: OrderedDict[str, Time] = OrderedDict()

    def note(self, source: str, now: Time) -> Time:
        """Count a failed attempt; return the time that the source has to wait, 0 within the limit."""
        drained = max(self._drained_at.pop(source, now), now)
        wait = drained + _PER_ATTEMPT - now - _BURST
        if wait <= 0:
            drained += _PER_ATTEMPT
        self._drained_at[source] = drained
        if len(self._drained_at) > MAX_REMEMBERED_SOURCES:
            self._drained_at.popitem(last=False)
        return max(wait, 0)
