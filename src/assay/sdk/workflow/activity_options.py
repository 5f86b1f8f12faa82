"""The options of `execute_activity` and `ctx.run`, and their form on the wire."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

import msgspec

from assay.core.model import commands as cmd
from assay.core.model.duration import Duration, parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.options import RETRY_KEYS, check_id, retry_policy
from assay.core.model.payload import Payload
from assay.core.model.policies import RetryPolicy
from assay.core.model.priority import priority_payload
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_flag, nearest
from assay.sdk.values.context_values import encoded_context
from assay.sdk.values.converter import Converter
from assay.sdk.values.retry import Retry

DEFAULT = RetryPolicy()
DURATIONS = {
    "start_to_close_secs": "start_to_close_secs",
    "start_to_close": "start_to_close_secs",
    "schedule_to_start_secs": "schedule_to_start_secs",
    "schedule_to_start": "schedule_to_start_secs",
    "schedule_to_close_secs": "schedule_to_close_secs",
    "schedule_to_close": "schedule_to_close_secs",
    "heartbeat_timeout_secs": "heartbeat_timeout_secs",
    "heartbeat": "heartbeat_timeout_secs",
}
"""Accepted names of an activity's time-outs; values are seconds, a timedelta or a text like "1h30m"."""


OTHER_OPTIONS: Final = (
    *("task_queue", "retry", "retry_policy", "summary", "context", "disable_eager_execution", "priority", "id"),
    *DURATIONS,
)


_CONVERTER: Final = Converter()
"""For contexts, which are plain JSON: a run's own converter would write them alike."""


class ActivityKeywords(TypedDict, total=False):
    """Options of `execute_activity`; durations are seconds, a timedelta or a text such as "1h30m".

    Keys:
        task_queue: The queue whose workers run the activity; the queue of this run unless given.
        id: A name for the activity, shown with it.
        priority: From 1, the first, to 5; the run's unless given.
        summary: A line about the activity, for people.
        context: Values that are merged over the run's context.
        retry: The retry policy; `retry_policy` means the same, and single fields of it override it.
        max_attempts: The number of attempts; 0 for no limit. `maximum_attempts` means the same.
        initial_interval_secs: The pause before the second attempt; `initial_interval` means the same.
        backoff_coefficient: The factor from one pause to the next; `backoff` means the same.
        maximum_interval_secs: The longest pause; `maximum_interval` means the same.
        non_retryable: Classes, names and kinds of errors that end the activity; also `non_retryable_error_types`.
        start_to_close_secs: The limit of one attempt; `start_to_close` means the same.
        schedule_to_start_secs: The limit of the wait for a worker; `schedule_to_start` means the same.
        schedule_to_close_secs: The limit of all attempts together; `schedule_to_close` means the same.
        heartbeat_timeout_secs: The longest pause between heartbeats; `heartbeat` means the same.
        wait_for_cancellation: Whether a cancelled wait lasts until the activity has ended.
        disable_eager_execution: Accepted, without effect.
    """

    task_queue: str | None
    id: str | None
    priority: Any
    summary: str | None
    context: Mapping[str, Any] | None
    retry: Retry | Mapping[str, Any] | None
    retry_policy: Retry | Mapping[str, Any] | None
    max_attempts: int | None
    maximum_attempts: int | None
    initial_interval: Duration | None
    initial_interval_secs: Duration | None
    backoff: float | None
    backoff_coefficient: float | None
    maximum_interval: Duration | None
    maximum_interval_secs: Duration | None
    non_retryable: Any
    non_retryable_error_types: Any
    start_to_close: Duration | None
    start_to_close_secs: Duration | None
    schedule_to_start: Duration | None
    schedule_to_start_secs: Duration | None
    schedule_to_close: Duration | None
    schedule_to_close_secs: Duration | None
    heartbeat: Duration | None
    heartbeat_timeout_secs: Duration | None
    wait_for_cancellation: bool | None
    disable_eager_execution: bool | None


class ActivityCall(msgspec.Struct, frozen=True):
    """The checked options of one call."""

    task_queue: str
    fields: dict[str, Any]

    @staticmethod
    def of(options: Mapping[str, Any], own_queue: str) -> "ActivityCall":
        """Check the options of a call; an unknown keyword is refused, not ignored."""
        if not options:
            return ActivityCall(own_queue, {})
        fields: dict[str, Any] = {}
        for key, value in options.items():
            if key in DURATIONS and value is not None:
                fields[DURATIONS[key]] = parse_duration(value, key) / SECOND
            elif key not in RETRY_KEYS and key not in OTHER_OPTIONS:
                raise _unknown("execute_activity", key, OTHER_OPTIONS)
        if options.get("context") is not None:
            fields["context"] = encoded_context(_CONVERTER, options["context"])
        if options.get("summary") is not None:
            fields["summary"] = check_words(options["summary"], "summary")
        if options.get("disable_eager_execution") is not None:
            check_flag(options["disable_eager_execution"], "disable_eager_execution")
        if options.get("priority") is not None:
            fields["priority"] = priority_payload(options["priority"])
        if options.get("id") is not None:
            fields["id"] = check_id(options["id"], "id")
        fields.update(_retry_fields(retry_of(options)))
        queue = options.get("task_queue")
        return ActivityCall(own_queue if queue is None else check_id(queue, "task_queue"), fields)

    def command(self, seq: int, name: str, input: Payload, *, survives: bool) -> cmd.ScheduleActivity:
        """Return the command that schedules the activity."""
        if not self.fields and not survives:
            return cmd.ScheduleActivity(seq, name, self.task_queue, input)
        return cmd.ScheduleActivity(seq, name, self.task_queue, input, survives_cancel=survives, **self.fields)


def with_defaults(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a call over those of the activity's definition; a retry policy replaces the other whole."""
    given = {_same_name(key): value for key, value in options.items() if value is not None}
    if given.keys() & {"retry"}:
        defaults = {key: value for key, value in defaults.items() if key != "retry" and key not in RETRY_KEYS}
    merged = {**defaults, **given}
    if "context" in defaults and "context" in given:
        merged["context"] = {**defaults["context"], **given["context"]}
    return merged


def _same_name(key: str) -> str:
    """Return one name for all spellings of an option."""
    return "retry" if key == "retry_policy" else DURATIONS.get(key, key)


def definition_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked default options of an activity's definition."""
    ActivityCall.of(options, "")
    return {_same_name(key): value for key, value in options.items() if value is not None}


def retry_of(options: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy of a call: `retry=Retry(...)`, overridden by single fields."""
    base = options.get("retry") if options.get("retry") is not None else options.get("retry_policy")
    policy = DEFAULT
    if base is not None:
        policy = base.policy() if hasattr(base, "policy") else retry_policy(_fields(base), DEFAULT)
    single = {key: names(value) for key, value in options.items() if key in RETRY_KEYS and value is not None}
    return retry_policy(single, policy) if single else policy


def _fields(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"retry must be a Retry or a mapping, not {type(value).__name__}", field="retry")
    return value


def names(value: Any) -> Any:
    """Replace exception classes in a list by their names; return other values unchanged."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return value.__name__
    if isinstance(value, list | tuple | set | frozenset):
        return [names(entry) for entry in value]
    return value


def _unknown(call: str, key: str, own: Iterable[str]) -> Invalid:
    """Return the error for an unknown keyword, with the nearest known name."""
    return Invalid(f"{call} has no option '{key}'; {nearest(key, (*own, 'retry', *RETRY_KEYS))}", field=key)


def _retry_fields(policy: RetryPolicy) -> dict[str, Any]:
    if policy == DEFAULT:
        return {}
    return {
        "max_attempts": policy.max_attempts,
        "initial_interval_secs": policy.initial_interval / SECOND,
        "backoff_coefficient": policy.backoff,
        "maximum_interval_secs": policy.maximum_interval / SECOND,
        "non_retryable": policy.non_retryable,
    }


def step_retry(options: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy of an inline step."""
    if not options:
        return DEFAULT
    for key in options:
        if key not in RETRY_KEYS and key not in ("retry", "retry_policy"):
            raise _unknown("ctx.run", key, ("timeout",))
    return retry_of(options)
