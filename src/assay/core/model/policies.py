"""Choices a caller makes once and the engine follows for the life of a run: retries, ids, closing."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time


class IdConflict(StrEnum):
    """What a start does when its id has an *open* run (C22)."""

    FAIL = "fail"
    USE_EXISTING = "use_existing"
    TERMINATE_EXISTING = "terminate_existing"


class IdReuse(StrEnum):
    """What a start does when the last run of its id is *closed* (C24)."""

    ALLOW_DUPLICATE = "allow_duplicate"
    ALLOW_DUPLICATE_FAILED_ONLY = "allow_duplicate_failed_only"
    REJECT_DUPLICATE = "reject_duplicate"


class ParentClose(StrEnum):
    """What becomes of an open child when its parent's run closes (C35, R17)."""

    TERMINATE = "terminate"
    ABANDON = "abandon"
    REQUEST_CANCEL = "request_cancel"


FIELD_NAMES = {"backoff": "backoff_coefficient"}
"""What callers are told of fields of a retry policy, unless they have names of their own for them."""


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a failed attempt is tried again; `max_attempts` 0 means without end (R27)."""

    max_attempts: int = 3
    initial_interval: Time = SECOND
    backoff: float = 2.0
    maximum_interval: Time = 60 * SECOND
    non_retryable: tuple[str, ...] = ()

    def checked(self, keys: Mapping[str, str] | None = None) -> "RetryPolicy":
        """Itself, or `Invalid` naming the field that makes no sense, by the caller's own name for it if it is known."""
        flaw = self._flaw()
        if flaw is None:
            return self
        field, message = flaw
        name = (keys or {}).get(field) or FIELD_NAMES.get(field, field)
        raise Invalid(f"{name} {message}", field=name)

    def _flaw(self) -> tuple[str, str] | None:
        if self.max_attempts < 0:
            return "max_attempts", "must be 0 (without end) or more"
        if not 1 <= self.backoff < float("inf"):
            return "backoff", "must be a number of 1 or more"
        if self.initial_interval < 0 or self.maximum_interval < 0:
            return "initial_interval" if self.initial_interval < 0 else "maximum_interval", "must not be negative"
        if self.maximum_interval < self.initial_interval and self.max_attempts != 1:
            return "maximum_interval", "must not be shorter than the first interval"
        return None

    def delay_after(self, attempt: int, failure: FailureInfo) -> Time | None:
        """How long to wait after failed attempt number `attempt`, or None when it was the last one."""
        if failure.retryable is False or self._listed(failure):
            return None
        if self.max_attempts and attempt >= self.max_attempts:
            return None
        return self._interval(attempt)

    def state_after(self, attempt: int, failure: FailureInfo) -> str:
        """Why there is no further attempt, in the words of the failure's `retry_state`."""
        if failure.retryable is False or self._listed(failure):
            return "non_retryable_failure"
        if self.max_attempts and attempt >= self.max_attempts:
            return "maximum_attempts_reached"
        return "timeout"

    def _listed(self, failure: FailureInfo) -> bool:
        return failure.kind in self.non_retryable or (failure.type or "") in self.non_retryable

    def _interval(self, attempt: int) -> Time:
        try:
            return int(min(self.initial_interval * self.backoff ** (attempt - 1), self.maximum_interval))
        except OverflowError:
            return self.maximum_interval


NO_RETRY = RetryPolicy(max_attempts=1)
