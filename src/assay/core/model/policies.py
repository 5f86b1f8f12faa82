"""Policies of a start: retries, reuse of ids, and children when their parent closes."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time


class IdConflict(StrEnum):
    """The effect of a start whose id has an *open* run."""

    FAIL = "fail"
    USE_EXISTING = "use_existing"
    TERMINATE_EXISTING = "terminate_existing"


class IdReuse(StrEnum):
    """The effect of a start when the last run of its id is *closed*."""

    ALLOW_DUPLICATE = "allow_duplicate"
    ALLOW_DUPLICATE_FAILED_ONLY = "allow_duplicate_failed_only"
    REJECT_DUPLICATE = "reject_duplicate"


class ParentClose(StrEnum):
    """The effect of the end of a parent's run on an open child."""

    TERMINATE = "terminate"
    ABANDON = "abandon"
    REQUEST_CANCEL = "request_cancel"


FIELD_NAMES = {"backoff": "backoff_coefficient"}
"""The names of retry policy fields in errors, unless the caller used other names."""


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule for attempts after a failure; `max_attempts` 0 means no limit."""

    max_attempts: int = 3
    initial_interval: Time = SECOND
    backoff: float = 2.0
    maximum_interval: Time = 60 * SECOND
    non_retryable: tuple[str, ...] = ()

    def checked(self, keys: Mapping[str, str] | None = None) -> "RetryPolicy":
        """Return the policy; raise `Invalid` for a bad field. `keys` has the caller's names of fields."""
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
        """Return the delay after failed attempt number `attempt`; None after the last attempt."""
        if failure.retryable is False or self._listed(failure):
            return None
        if self.max_attempts and attempt >= self.max_attempts:
            return None
        return self._interval(attempt)

    def state_after(self, attempt: int, failure: FailureInfo) -> str:
        """Return the reason why no attempt follows, as a value of `retry_state`."""
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
