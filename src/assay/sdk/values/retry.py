"""The retry policy as users write it (R27)."""

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

import msgspec

from assay.core.model.duration import Duration, parse_duration
from assay.core.model.errors import Invalid, Kind
from assay.core.model.ids import SECOND, seconds
from assay.core.model.options import retry_policy
from assay.core.model.policies import RetryPolicy
from assay.sdk.arguments import unknown_option

NonRetryable = str | type[BaseException]
_LONGEST = 60
_ALIASES = {
    "maximum_attempts": "max_attempts",
    "initial_interval_secs": "initial_interval",
    "backoff_coefficient": "backoff",
    "maximum_interval_secs": "maximum_interval",
    "non_retryable_error_types": "non_retryable",
}


class RetryAliases(TypedDict, total=False):
    """The names of the same fields elsewhere."""

    maximum_attempts: int
    initial_interval_secs: Duration
    backoff_coefficient: float
    maximum_interval_secs: Duration
    non_retryable_error_types: NonRetryable | Iterable[NonRetryable]


class Retry:
    """When a failed attempt is tried again; `max_attempts=0` means without end.

    `non_retryable` takes exception classes, names of classes, and kinds. The fields can be read, intervals in seconds.
    """

    __slots__ = ("_policy",)

    def __init__(
        self,
        max_attempts: int = 3,
        initial_interval: Duration = 1,
        backoff: float = 2,
        maximum_interval: Duration = _LONGEST,
        non_retryable: NonRetryable | Iterable[NonRetryable] = (),
        **aliases: Unpack[RetryAliases],
    ) -> None:
        fields: dict[str, Any] = {
            "max_attempts": max_attempts,
            "initial_interval": initial_interval,
            "backoff": backoff,
            # Left out when it is the default, so that a long first interval alone is not an error.
            "maximum_interval": None if maximum_interval == _LONGEST else maximum_interval,
            "non_retryable": non_retryable,
        }
        for alias, value in aliases.items():
            if alias not in _ALIASES:
                raise unknown_option("Retry() has no field", alias, fields)
            fields[_ALIASES[alias]] = value
        fields["non_retryable"] = names_of(fields["non_retryable"])
        policy = retry_policy(fields, RetryPolicy())
        if parse_duration(fields["initial_interval"], "initial_interval") == 0:
            policy = msgspec.structs.replace(
                policy, initial_interval=0
            )  # elsewhere 0 means the default, here what it says
        self._policy = policy

    @property
    def max_attempts(self) -> int:
        """How many attempts there are; 0 is without end."""
        return self._policy.max_attempts

    @property
    def initial_interval(self) -> float:
        """Seconds before the second attempt."""
        return self._policy.initial_interval / SECOND

    @property
    def backoff(self) -> float:
        """What each interval is multiplied with to give the next."""
        return self._policy.backoff

    @property
    def maximum_interval(self) -> float:
        """Seconds that no interval exceeds."""
        return self._policy.maximum_interval / SECOND

    @property
    def non_retryable(self) -> tuple[str, ...]:
        """Names of exception classes, and kinds."""
        return self._policy.non_retryable

    def policy(self) -> RetryPolicy:
        """The policy as the engine keeps it."""
        return self._policy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Retry) and self._policy == other._policy

    def __hash__(self) -> int:
        return hash((self._policy.max_attempts, self._policy.initial_interval, self._policy.non_retryable))

    def __repr__(self) -> str:
        return (
            f"Retry(max_attempts={self.max_attempts}, initial_interval={self.initial_interval:g},"
            f" backoff={self.backoff:g}, maximum_interval={self.maximum_interval:g},"
            f" non_retryable={self.non_retryable})"
        )


def names_of(entries: NonRetryable | Iterable[NonRetryable]) -> tuple[str, ...]:
    """What recorded failures are compared with: names of exception classes, and kinds."""
    several = (entries,) if isinstance(entries, str | type) or not isinstance(entries, Iterable) else entries
    return tuple(_name(entry) for entry in several)


def wire_retry(policy: RetryPolicy) -> dict[str, Any]:
    """The policy in the words of the wire, where an interval of zero would be the default one."""
    return {
        "maximum_attempts": policy.max_attempts,
        "initial_interval": seconds(policy.initial_interval or 1),
        "backoff_coefficient": policy.backoff,
        "maximum_interval": seconds(policy.maximum_interval or 1),
        "non_retryable_error_types": list(policy.non_retryable),
    }


def _name(entry: object) -> str:
    if isinstance(entry, Kind):
        return entry.value
    if isinstance(entry, str):
        return entry
    if isinstance(entry, type) and issubclass(entry, BaseException):
        return entry.__name__
    raise Invalid(f"non_retryable takes exception classes, their names, or kinds; not {entry!r}", field="non_retryable")
