"""The options of `start_child_workflow`, `exec` and `spawn`, and their form on the wire."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

import msgspec

from assay.core.model.commands import ChildMessage
from assay.core.model.duration import Duration, parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.core.model.options import check_id, choice
from assay.core.model.payload import Payload
from assay.core.model.policies import IdConflict, IdReuse, ParentClose
from assay.core.model.priority import priority_payload
from assay.core.model.start_options import OptionKind, by_option
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_flag, check_mapping, nearest, optional_id
from assay.sdk.client.start_options import FirstMessage, first_messages, retry_of
from assay.sdk.values.context_values import check_scope, encoded_context
from assay.sdk.values.converter import Converter
from assay.sdk.values.retry import Retry, wire_retry
from assay.sdk.values.search_values import search_values


class ChildOptions(TypedDict, total=False):
    """Options of every start of a child; durations are seconds, a timedelta or a text such as "1h30m".

    Keys:
        namespace: The namespace of the child, unless the parent's.
        search_attributes: Values by which runs can be listed.
        memo: Values that are shown with the run.
        context: Values that activities and children inherit, such as trace ids.
        id_conflict_policy: Only `fail`: a child is never an open run that exists already.
        id_reuse_policy: Whether the id may have a closed run.
        error_if_exists: Only True, for the same reason.
        execution_timeout: The limit of the whole chain of runs.
        run_timeout: The limit of one run.
        task_timeout: The limit of one workflow task.
        retry_policy: When a failed run is followed by another attempt.
        cron_schedule: A cron expression of the chain's runs.
        start_delay: A pause before the first task.
        enable_eager_start: Ignored.
        summary: A line about the run, for people.
        details: A text about the run, for people.
        priority: From 1, the first to go out, to 5; the parent's unless given.
        actor: The person or program on whose behalf the run acts; the parent's unless given.
        scope: Texts that name permissions; the parent's unless given.
        parent_close_policy: What becomes of the child when the parent closes: `terminate`, `abandon` or
            `request_cancel`.
        messages: Messages that the child has received when it starts; `signals` is another name.
        signals: Another name of `messages`; both together are one list, `messages` first.
        wait_for_cancellation: True if a cancelled wait lasts until the child has closed.
    """

    namespace: str | None
    search_attributes: Mapping[str, Any] | None
    memo: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    id_conflict_policy: str | None
    id_reuse_policy: str | None
    error_if_exists: bool | None
    execution_timeout: Duration | None
    run_timeout: Duration | None
    task_timeout: Duration | None
    retry_policy: Retry | Mapping[str, Any] | None
    cron_schedule: str | None
    start_delay: Duration | None
    enable_eager_start: bool | None
    summary: str | None
    details: str | None
    priority: int | None
    actor: str | None
    scope: Sequence[str] | None
    parent_close_policy: str | None
    messages: Iterable[FirstMessage] | None
    signals: Iterable[FirstMessage] | None
    wait_for_cancellation: bool | None


class ChildKeywords(ChildOptions, total=False):
    """Options of `exec` and `spawn`.

    Keys:
        id: The child's workflow id, which must be the same on every replay; generated unless given.
        name: The same; `id` is used if both are given.
        task_queue: The child's queue; the queue of this run unless given.
    """

    id: str | None
    name: str | None
    task_queue: str | None


class ChildCall(msgspec.Struct, frozen=True):
    """The checked options of one call: fields of the command, and options that only the worker needs."""

    fields: dict[str, Any]
    workflow_id: str | None = None
    task_queue: str | None = None
    wait: bool = False
    """True if a cancelled wait lasts until the child has closed."""


def child_call(call: str, converter: Converter, options: Mapping[str, Any]) -> ChildCall:
    """Return the checked options of a call; an unknown keyword is refused, not ignored.

    Args:
        call: The name of the method, for messages.
        converter: Encodes values.
        options: The keywords of the caller.
    """
    fields: dict[str, Any] = {}
    for name, value in options.items():
        read = _READERS.get(name)
        if read is None and name not in _OWN:
            raise Invalid(f"{call} has no option '{name}'; {nearest(name, (*_OWN, 'input', *_READERS))}", field=name)
        if read is not None and value is not None:
            fields[name] = read(converter, name, value)
    messages = (*fields.pop("messages", ()), *fields.pop("signals", ()))
    if messages:
        fields["signals"] = messages
    _check_conflicts(options)
    workflow_id = next((options[key] for key in ("id", "workflow_id", "name") if options.get(key) is not None), None)
    wait = options.get("wait_for_cancellation")
    return ChildCall(
        fields,
        optional_id(workflow_id, "workflow_id"),
        optional_id(options.get("task_queue"), "task_queue"),
        False if wait is None else check_flag(wait, "wait_for_cancellation"),
    )


def _check_conflicts(options: Mapping[str, Any]) -> None:
    """Refuse policies that would use an open run as the child."""
    policy = choice(IdConflict, options.get("id_conflict_policy"), "id_conflict_policy", IdConflict.FAIL)
    if policy is not IdConflict.FAIL:
        raise Invalid("id_conflict_policy of a child can only be 'fail'", field="id_conflict_policy")
    if options.get("error_if_exists") is not None and not check_flag(options["error_if_exists"], "error_if_exists"):
        raise Invalid("error_if_exists of a child can only be True", field="error_if_exists")


def _document(converter: Converter, name: str, value: Any) -> Payload:
    return Payload(converter.encode(value, name=name))


def _object(converter: Converter, name: str, value: Any) -> Payload:
    return _document(converter, name, check_mapping(value, name))


def _duration(_: Converter, name: str, value: Any) -> float:
    return parse_duration(value, name) / SECOND


def _words(_: Converter, name: str, value: Any) -> str:
    return check_words(value, name)


def _retry(_: Converter, name: str, value: Any) -> dict[str, Any] | None:
    policy = retry_of(value, name)
    return None if policy is None else wire_retry(policy)


def _reuse(_: Converter, name: str, value: Any) -> str:
    return choice(IdReuse, value, name, IdReuse.ALLOW_DUPLICATE).value


def _context(converter: Converter, name: str, value: Any) -> Payload:
    return encoded_context(converter, value, name)


def _search(converter: Converter, name: str, value: Any) -> Payload:
    return _document(converter, name, search_values(value, name))


def _priority(_: Converter, name: str, value: Any) -> Payload:
    return priority_payload(value, name)


def _scope(_: Converter, name: str, value: Any) -> tuple[str, ...]:
    return check_scope(value, name)


def _messages(converter: Converter, name: str, value: Any) -> tuple[ChildMessage, ...]:
    found = first_messages(converter, name, value)
    for message in found:
        if message.name.startswith("@"):
            raise Invalid("a topic that begins with @ is reserved", field=name)
    return tuple(ChildMessage(message.name, message.payload, message.args) for message in found)


def _parent_close(_: Converter, name: str, value: Any) -> str:
    return choice(ParentClose, value, name, ParentClose.TERMINATE).value


def _namespace(_: Converter, name: str, value: Any) -> str:
    return check_id(value, name)


_OWN: Final = (
    *("id", "name", "workflow_id", "task_queue", "wait_for_cancellation"),
    *("id_conflict_policy", "error_if_exists", "enable_eager_start"),
)
"""Options that are no fields of the command, or that `child_call` reads itself."""
_READERS: Final[dict[str, Callable[[Converter, str, Any], Any]]] = {
    **by_option(
        {
            OptionKind.OBJECT: _object,
            OptionKind.DURATION: _duration,
            OptionKind.RETRY: _retry,
            OptionKind.REUSE: _reuse,
            OptionKind.TEXT: _words,
            OptionKind.PRIORITY: _priority,
            OptionKind.LIST: _scope,
        },
    ),
    "context": _context,
    "search_attributes": _search,
    "parent_close_policy": _parent_close,
    "messages": _messages,
    "signals": _messages,
    "namespace": _namespace,
}
