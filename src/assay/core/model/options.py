"""Parse and check the options of callers: durations, policies, ids, texts."""

import re
from collections.abc import Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, TypeVar

from assay.core.model.addresses import SCHEMES
from assay.core.model.commands import StartChildWorkflow
from assay.core.model.context import check_context
from assay.core.model.duration import LONGEST_DURATION, parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Namespace, Time, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL
from assay.core.model.policies import IdConflict, IdReuse, ParentClose, RetryPolicy
from assay.core.model.priority import check_priority
from assay.core.model.requests import FirstSignal, StartWorkflow
from assay.core.model.start_options import Convert, OptionKind, by_option, given_options, options_of
from assay.core.model.texts import check_words, not_a_text, plain
from assay.core.rules.attributes import check_search, merge
from assay.core.rules.message_limits import check_topic
from assay.core.schedules.timetable import parse_timetable

Choice = TypeVar("Choice", bound=StrEnum)


def duration(value: object, name: str) -> Time | None:
    """Return a duration in microseconds; None for None."""
    return None if value is None else parse_duration(value, name)


PROTOBUF: Final[Mapping[type[StrEnum], tuple[str, tuple[str, ...]]]] = {
    IdReuse: (
        "workflow_id_reuse_policy_",
        (IdReuse.ALLOW_DUPLICATE, IdReuse.ALLOW_DUPLICATE_FAILED_ONLY, IdReuse.REJECT_DUPLICATE),
    ),
    IdConflict: (
        "workflow_id_conflict_policy_",
        (IdConflict.FAIL, IdConflict.USE_EXISTING, IdConflict.TERMINATE_EXISTING),
    ),
    ParentClose: ("parent_close_policy_", (ParentClose.TERMINATE, ParentClose.ABANDON, ParentClose.REQUEST_CANCEL)),
}
"""The names and numbers of policies in Temporal's protobuf: the prefix of the names, and the members from 1 on."""


def choice(kind: type[Choice], value: object, name: str, default: Choice) -> Choice:
    """Return the member of `kind` for a text, in any case, with dashes or underscores, or for a protobuf number."""
    if value is None:
        return default
    if isinstance(value, kind):
        return value
    prefix, order = PROTOBUF.get(kind, ("", ()))
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= len(order):
        return default if value == 0 else kind(order[value - 1])
    text = str(value).strip().lower().replace("-", "_").removeprefix(prefix)
    if text == "unspecified" and prefix:
        return default
    try:
        return kind(text)
    except ValueError:
        allowed = ", ".join(kind)
        raise Invalid(f"{name} is '{value}'; it can be {allowed}", field=name) from None


MAX_CHECKED_IDS: Final = 1_024
_checked_ids: Final[set[str]] = set()
"""Valid ids of recent calls. A start checks names of types and queues, the same ones each time, at several places."""


def check_id(value: str, name: str) -> str:
    """Return an id of 1 to 255 bytes without control characters; raise `Invalid` for any other value."""
    if type(value) is str:
        if value in _checked_ids:
            return value
        if 0 < len(value) <= LIMITS.id_bytes and value.isascii() and value.isprintable():
            if len(_checked_ids) >= MAX_CHECKED_IDS:
                _checked_ids.clear()
            _checked_ids.add(value)
            return value
    if not isinstance(value, str):
        raise not_a_text(value, name)
    if not value:
        raise Invalid(f"{name} must not be empty", field=name)
    if len(value) > LIMITS.id_bytes or len(value.encode("utf-8", "surrogatepass")) > LIMITS.id_bytes:
        raise Invalid(f"{name} is longer than {LIMITS.id_bytes} bytes", field=name)
    if not value.isprintable() and any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in value):
        raise Invalid(f"{name} contains control characters", field=name)
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
        raise Invalid(f"{name} contains a lone surrogate", field=name)
    return plain(value)


_NAMESPACE: Final = re.compile(r"[a-z0-9-]{1,63}\Z", re.ASCII)


def check_namespace(name: str) -> str:
    """Return a valid namespace name; raise `Invalid` otherwise."""
    if not _NAMESPACE.match(name):
        raise Invalid("a namespace is 1 to 63 lower-case letters, digits or dashes", field="namespace")
    return name


MAX_CONCURRENCY = 1_000_000


def check_concurrency(number: int, name: str) -> int:
    """Return the concurrency of a worker; raise `Invalid` outside of the range that databases store."""
    if not 0 <= number <= MAX_CONCURRENCY:
        raise Invalid(f"{name} must be from 0 to {MAX_CONCURRENCY:,}", field=name)
    return number


def check_text(value: str | None, name: str) -> str | None:
    """Return an optional text for people; see `check_words`."""
    return None if value is None else check_words(value, name)


RETRY_KEYS = {
    "max_attempts": "max_attempts",
    "maximum_attempts": "max_attempts",
    "initial_interval": "initial_interval",
    "initial_interval_secs": "initial_interval",
    "backoff": "backoff",
    "backoff_coefficient": "backoff",
    "maximum_interval": "maximum_interval",
    "maximum_interval_secs": "maximum_interval",
    "non_retryable": "non_retryable",
    "non_retryable_error_types": "non_retryable",
}
"""The accepted spellings of the fields of a retry policy; case and underscores are ignored."""
_FOLDED = {key.replace("_", ""): name for key, name in RETRY_KEYS.items()}


def retry_policy(fields: Mapping[str, Any], default: RetryPolicy, *, times: int = 0) -> RetryPolicy:
    """Return a retry policy from its fields; zero or absent fields take the defaults.

    The default of the maximum interval is the one of `default`, or `times` the initial interval. Errors use the
    caller's names of fields.
    """
    found: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in fields.items():
        name = _FOLDED.get(str(key).lower().replace("_", "").replace("-", ""))
        if name is not None and value is not None:
            found[name], keys[name] = _retry_field(name, value, key), key
    initial = found.get("initial_interval") or default.initial_interval
    usual = min(times * initial, LONGEST_DURATION) if times else max(default.maximum_interval, initial)
    policy = RetryPolicy(
        max_attempts=found.get("max_attempts", default.max_attempts),
        initial_interval=initial,
        backoff=found.get("backoff") or default.backoff,
        maximum_interval=found.get("maximum_interval") or usual,
        non_retryable=found.get("non_retryable", default.non_retryable),
    )
    return policy.checked(keys)


def _retry_field(name: str, value: Any, key: str) -> Any:
    if name in ("initial_interval", "maximum_interval"):
        return parse_duration(value, key)
    if name == "backoff":
        return _number(value, key)
    if name == "max_attempts":
        number = _number(value, key)
        if not number.is_integer():
            raise Invalid(f"{key} must be a whole number", field=key)
        return int(number)
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) for entry in entries):
        raise Invalid(f"{key} takes names of error types or kinds", field=key)
    return tuple(entries)


def _number(value: Any, name: str) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float):
            return float(value)
    except OverflowError:
        pass
    raise Invalid(f"{name} must be a number", field=name)


WORKFLOW_RETRY = RetryPolicy(max_attempts=0, initial_interval=SECOND, backoff=2.0, maximum_interval=100 * SECOND)
"""Defaults of a *workflow's* retry policy: no limit of attempts. The maximum interval defaults to a hundred times the
initial interval."""


def workflow_retry(fields: Mapping[str, Any] | None) -> RetryPolicy | None:
    """Return the retry policy of a workflow from its fields; None for None."""
    return None if fields is None else retry_policy(fields, WORKFLOW_RETRY, times=100)


def _workflow_retry(fields: Mapping[str, Any], _: str) -> RetryPolicy | None:
    return workflow_retry(fields)


def _reuse(value: str, name: str) -> IdReuse:
    return choice(IdReuse, value, name, IdReuse.ALLOW_DUPLICATE)


OPTION_PARSERS: Final[dict[str, Convert]] = by_option(
    {OptionKind.DURATION: parse_duration, OptionKind.RETRY: _workflow_retry, OptionKind.REUSE: _reuse}
)
"""Convert options of commands and bodies to options of a request; options of other kinds need no conversion."""

_TEXTS: Final = options_of(OptionKind.TEXT)
_texts: Final = attrgetter(*_TEXTS)
_DURATIONS: Final = options_of(OptionKind.DURATION)
_durations: Final = attrgetter(*_DURATIONS)


def check_workflow_id(value: str) -> None:
    """Raise `Invalid` unless a text can be a workflow id: an id that does not look like an address."""
    check_id(value, "workflow_id")
    if value.startswith(SCHEMES):
        raise Invalid(f"a workflow id must not begin like an address: '{value}'", field="workflow_id")


def checked_start(request: StartWorkflow) -> StartWorkflow:
    """Return the request; raise `Invalid` for bad options, or options that exclude each other."""
    check_workflow_id(request.workflow_id)
    check_id(request.workflow_type, "workflow_type")
    check_id(request.task_queue, "task_queue")
    if request.request_id is not None:
        check_id(request.request_id, "request_id")
    for name, text in zip(_TEXTS, _texts(request), strict=True):
        if text is not None:
            check_words(text, name)
    for message in request.signals:
        check_topic(message.name)
    if len(request.signals) > LIMITS.signals:
        raise Invalid(f"a run takes at most {LIMITS.signals} signals", code="limit_exceeded", field="signals")
    if (
        request.id_reuse_policy is IdReuse.REJECT_DUPLICATE
        and request.id_conflict_policy is IdConflict.TERMINATE_EXISTING
    ):
        raise Invalid("reject_duplicate and terminate_existing exclude each other", field="id_reuse_policy")
    if request.cron_schedule is not None:
        if request.start_delay is not None:
            raise Invalid("cron_schedule and start_delay exclude each other", field="start_delay")
        _check_cron(request.cron_schedule)
    for name, length in zip(_DURATIONS, _durations(request), strict=True):
        if length is not None and length < 0:
            raise Invalid(f"{name} must not be negative", field=name)
    if request.retry_policy is not None:
        request.retry_policy.checked()
    for entry in request.scope or ():
        check_words(entry, "scope")
    check_context(request.context)
    check_priority(request.priority)
    check_search(request.search_attributes)
    merge(NULL, request.memo, "memo")
    return request


def _check_cron(cron_schedule: str) -> None:
    try:
        parse_timetable(cron_schedule)
    except Invalid as error:
        raise Invalid(str(error), code=error.code, field="cron_schedule") from None


def child_request(namespace: Namespace, command: StartChildWorkflow, sender: str | None = None) -> StartWorkflow:
    """Return the checked start request of a command that starts a child; `sender` is the address of its parent."""
    check_namespace(namespace)
    messages = tuple(
        FirstSignal(check_id(message.name, "signals.name"), message.payload, sender, message.args)
        for message in command.signals
    )
    return checked_start(
        StartWorkflow(
            namespace=namespace,
            workflow_id=WorkflowId(command.workflow_id),
            workflow_type=command.workflow_type,
            task_queue=command.task_queue,
            input=command.input,
            parent_close_policy=choice(
                ParentClose, command.parent_close_policy, "parent_close_policy", ParentClose.TERMINATE
            ),
            signals=messages,
            **given_options(command, OPTION_PARSERS),
        )
    )
