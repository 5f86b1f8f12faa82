"""`Retry`: the retry policy of an activity, step or workflow."""

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
    """Other names of the fields of `Retry`, as in Temporal."""

    maximum_attempts: int
    initial_interval_secs: Duration
    backoff_coefficient: float
    maximum_interval_secs: Duration
    non_retryable_error_types: NonRetryable | Iterable[NonRetryable]


class Retry:
    """When a failed attempt is followed by another. Fields can be read; intervals are in seconds.

    Args:
        max_attempts: The number of attempts; 0 for no limit.
        initial_interval: The pause before the second attempt.
        backoff: The factor from one pause to the next.
        maximum_interval: The longest pause.
        non_retryable: Exception classes, names of classes, and kinds after which no attempt follows.
        **aliases: See `RetryAliases`.

    Raises:
        Invalid: A field has an impossible value.
        TypeError: A field of this name does not exist.
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
            # The default is left out, so that a longer first interval alone is not an error.
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
            # On the wire 0 stands for the default; a user's 0 means no pause.
            policy = msgspec.structs.replace(policy, initial_interval=0)
        self._policy = policy

    @property
    def max_attempts(self) -> int:
        """Return the number of attempts; 0 for no limit."""
        return self._policy.max_attempts

    @property
    def initial_interval(self) -> float:
        """Return the pause before the second attempt, in seconds."""
        return self._policy.initial_interval / SECOND

    @property
    def backoff(self) -> float:
        """Return the factor from one pause to the next."""
        return self._policy.backoff

    @property
    def maximum_interval(self) -> float:
        """Return the longest pause, in seconds."""
        return self._policy.maximum_interval / SECOND

    @property
    def non_retryable(self) -> tuple[str, ...]:
        """Return names of exception classes, and kinds, after which no attempt follows."""
        return self._policy.non_retryable

    def policy(self) -> RetryPolicy:
        """Return the policy in the engine's form.

        Returns:
            The policy, with intervals in microseconds.
        """
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
    """Return the names that recorded failures are compared with: of exception classes, and of kinds."""
    several = (entries,) if isinstance(entries, str | type) or not isinstance(entries, Iterable) else entries
    return tuple(_name(entry) for entry in several)


def wire_retry(policy: RetryPolicy) -> dict[str, Any]:
    """Return the policy with the names of the wire, where an interval of 0 stands for the default."""
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
