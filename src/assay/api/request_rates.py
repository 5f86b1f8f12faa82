"""The operator's limit of requests a second, for each caller; without such a limit nothing is counted."""

from collections import OrderedDict
from typing import Final

from assay.api.call import ApiCall
from assay.core.model.errors import AssayError, Kind
from assay.core.model.ids import SECOND, Time

MAX_REMEMBERED_CALLERS: Final = 10_000


class TooManyRequests(AssayError):
    """A caller sends more requests a second than the operator allows. Nothing was changed."""

    code = "too_many_requests"
    kind = Kind.RATE_LIMITED

    def __init__(self, most: int, wait: Time) -> None:
        self.retry_after_seconds = seconds_until(wait)
        super().__init__(f"more than {most} requests a second with this credential; wait a moment")


class RequestRates:
    """A leaky bucket for each caller: `most` requests at once, and as many each second.

    A bucket is stored as the time at which it will be empty.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._drained_at: OrderedDict[str, Time] = OrderedDict()

    def check(self, call: ApiCall, now: Time) -> None:
        """Count a request of a caller; without authentication callers are told apart by their addresses.

        Raises:
            TooManyRequests: The caller has exceeded the limit.
        """
        caller = call.principal.identity or f"address {call.address}"
        each = SECOND // self._most
        drained = max(self._drained_at.pop(caller, now), now)
        wait = drained + each - now - SECOND
        if wait <= 0:
            drained += each
        self._drained_at[caller] = drained
        if len(self._drained_at) > MAX_REMEMBERED_CALLERS:
            self._drained_at.popitem(last=False)
        if wait > 0:
            raise TooManyRequests(self._most, wait)


def seconds_until(wait: Time) -> int:
    """Return a time to wait in whole seconds, as the header `Retry-After` has it."""
    return max(1, -(-wait // SECOND))
