"""The options of `start` and `run`, and the request that they become."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from assay.core.model.duration import Duration
from assay.core.model.errors import AlreadyExists, Invalid
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId, id_of_request
from assay.core.model.options import check_id, choice, duration, workflow_retry
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse, RetryPolicy
from assay.core.model.priority import priority_payload
from assay.core.model.requests import FirstSignal, StartWorkflow
from assay.core.model.run import COMPLETED
from assay.core.model.start_options import OptionKind, by_option
from assay.core.model.texts import check_words
from assay.sdk.app import Definition
from assay.sdk.arguments import check_flag, check_mapping, input_of, unknown_option
from assay.sdk.values.context_values import check_scope, encoded_context
from assay.sdk.values.converter import Converter
from assay.sdk.values.retry import Retry, names_of
from assay.sdk.values.search_values import search_values

FirstMessage = str | tuple[str, Any] | Mapping[str, Any]
_TYPE_BYTES = 200
"""Bytes of the workflow type in a generated id: an id has at most 255."""


class StartKeywords(TypedDict, total=False):
    """Options of `start` and `run`; durations are seconds, a timedelta or a text such as "1h30m".

    Keys:
        type: Another name of the workflow.
        args: Several arguments of the workflow, in place of its input.
        task_queue: The queue whose workers run the workflow; the app's unless given.
        namespace: The namespace of the run, unless the client's.
        search_attributes: Values by which runs can be listed.
        memo: Values that are shown with the run.
        context: Values that activities, children and next runs inherit, such as trace ids; JSON only.
        id_conflict_policy: What to do if the id has an open run.
        id_reuse_policy: What to do if the id has a closed run.
        error_if_exists: Short for an `id_conflict_policy` of `fail` (True) or `use_existing` (False).
        execution_timeout: The limit of the whole chain of runs.
        run_timeout: The limit of one run.
        task_timeout: The limit of one workflow task.
        retry_policy: When a failed run is followed by another attempt.
        cron_schedule: A cron expression of the chain's runs.
        enable_eager_start: Accepted; a free worker receives the first task with the start anyway.
        start_delay: A pause before the first task.
        signals: Signals that the run has received when it starts.
        messages: Another name of `signals`; both together are one list, these first.
        request_id: An idempotency key; a repeated start with the same key is the same start.
        summary: A line about the run, for people.
        details: A text about the run, for people.
        priority: From 1, the first to go out, to 5; 3 unless given. Inherited by activities, children and next runs.
        actor: For whom the run is started; inherited like the context, and not verified.
        scope: The names of policies under which it is started; inherited like the context, and not verified.
    """

    type: Callable[..., Any] | str | None
    args: Sequence[Any] | None
    task_queue: str | None
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
    enable_eager_start: bool | None
    start_delay: Duration | None
    signals: Iterable[FirstMessage] | None
    messages: Iterable[FirstMessage] | None
    request_id: str | None
    summary: str | None
    details: str | None
    priority: int | None
    actor: str | None
    scope: Iterable[str] | None


def start_request(
    converter: Converter,
    workflow_type: str,
    workflow_id: str | None,
    input: Any,
    options: Mapping[str, Any],
    usual: Mapping[str, Any],
) -> StartWorkflow:
    """Return the request of a start.

    Args:
        converter: Encodes the input and the attributes.
        workflow_type: The workflow's name.
        workflow_id: The workflow id, or None to generate one.
        input: The workflow's input.
        options: The caller's options; each is checked.
        usual: Fields that hold unless an option overrides them, checked before: the namespace and the queue.

    Raises:
        TypeError: A start has no option of this name.
        Invalid: An option is malformed.
    """
    fields = dict(usual)
    input = input_of(input, options.get("args"))
    for name, value in options.items():
        read = _READERS.get(name)
        if read is None:
            raise unknown_option("a start has no option", name, StartKeywords.__annotations__)
        if value is not None:
            fields.update(read(converter, name, value))
    if "messages" in fields:
        fields["signals"] = (*fields.pop("messages"), *fields.get("signals", ()))
    # An explicit policy takes precedence over its short form.
    if options.get("error_if_exists") is not None and options.get("id_conflict_policy") is None:
        fields["id_conflict_policy"] = IdConflict.FAIL if options["error_if_exists"] else IdConflict.USE_EXISTING
    kind = check_id(workflow_type, "workflow_type")
    name = _id(kind, fields) if workflow_id is None else WorkflowId(check_id(workflow_id, "workflow_id"))
    if "request_id" not in fields:
        fields["request_id"] = f"r-{secrets.token_hex(12)}"  # makes a repeated request the same start
    return StartWorkflow(
        workflow_type=kind,
        workflow_id=name,
        input=NULL if input is None else Payload(converter.encode(input, name="input")),
        **fields,
    )


def the_workflow(
    call: str,
    workflow: Callable[..., Any] | str | None,
    workflow_type: Callable[..., Any] | str | None,
    misplaced: tuple[Any, ...],
) -> Callable[..., Any] | str:
    """Return the workflow that `start` or `run` was called with; refuse a third positional argument."""
    if misplaced:
        raise Invalid(
            f"{call} takes the workflow and its input; give an id by keyword: {call}(workflow, input, workflow_id=...)",
            field="workflow_id",
        )
    wanted = workflow_type if workflow is None else workflow
    if wanted is None:
        raise Invalid(f"{call} needs a workflow_type: the function itself, or its name", field="workflow_type")
    return wanted


def check_takes_input(definition: Definition) -> None:
    """Refuse an input for a workflow without a parameter for one: it is most likely a misplaced id."""
    if not definition.signature.takes_input:
        raise Invalid(
            f"workflow '{definition.name}' takes no input; pass an id by keyword: workflow_id=...",
            field="input",
        )


def completed_run(refusal: AlreadyExists, request: StartWorkflow) -> RunKey | None:
    """Return the completed run that a start was refused for; None if the start was refused for another reason."""
    facts = refusal.existing
    if refusal.code != AlreadyExists.code or facts.get("status") != COMPLETED:
        return None
    return RunKey(request.namespace, request.workflow_id, RunId(str(facts["run_id"])))


def _id(workflow_type: str, fields: Mapping[str, Any]) -> WorkflowId:
    """Generate an id; derived from a given request id, because a repeated start needs the same id."""
    if "request_id" in fields:
        return id_of_request(fields["namespace"], fields["request_id"])
    short = workflow_type.lower().encode()[:_TYPE_BYTES].decode(errors="ignore")
    return WorkflowId(f"wf-{short}-{secrets.token_hex(10)}")


Reader = Callable[[Converter, str, Any], dict[str, Any]]


def _read_text(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: check_id(value, name)}


def _read_words(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: check_words(value, name)}


def _read_namespace(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: Namespace(check_id(value, name))}


def _read_object(converter: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: Payload(converter.encode(value, name=name))} if check_mapping(value, name) else {}


def _read_context(converter: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: encoded_context(converter, value, name)} if check_mapping(value, name) else {}


def _read_scope(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: check_scope(value, name)}


def _read_search(converter: Converter, name: str, value: Any) -> dict[str, Any]:
    return _read_object(converter, name, search_values(value, name))


def _read_priority(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: priority_payload(value, name)}


def _read_duration(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: duration(value, name)}


def _read_conflict(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: choice(IdConflict, value, name, IdConflict.FAIL)}


def _read_reuse(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: choice(IdReuse, value, name, IdReuse.ALLOW_DUPLICATE)}


def _read_flag(_: Converter, name: str, value: Any) -> dict[str, Any]:
    check_flag(value, name)  # `start_request` turns the flag into a conflict policy
    return {}


def _read_retry(_: Converter, name: str, value: Any) -> dict[str, Any]:
    return {name: retry_of(value, name)}


def retry_of(value: Retry | Mapping[str, Any], name: str = "retry_policy") -> RetryPolicy | None:
    """Return a workflow's retry policy; missing fields of a mapping take the defaults of workflows."""
    if isinstance(value, Retry):
        return value.policy()
    if not isinstance(value, Mapping):
        raise Invalid(f"{name} must be a Retry or a mapping, not {type(value).__name__}", field=name)
    fields = {key: names_of(entry) if "retryable" in str(key).lower() else entry for key, entry in value.items()}
    return workflow_retry(fields)


def first_messages(converter: Converter, name: str, value: Any) -> tuple[FirstSignal, ...]:
    """Return the messages of a start; raise `Invalid` for anything but a list of them."""
    found: tuple[FirstSignal, ...] = _read_signals(converter, name, value)[name]
    return found


def _read_signals(converter: Converter, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise Invalid("signals must be a list: of names, of (name, payload), or of mappings with both", field=name)
    return {name: tuple(_first_signal(converter, f"{name}[{index}]", entry) for index, entry in enumerate(value))}


def _read_messages(converter: Converter, name: str, value: Any) -> dict[str, Any]:
    return _read_signals(converter, name, value)


def _first_signal(converter: Converter, path: str, entry: Any) -> FirstSignal:
    match entry:
        case str():
            signal, payload = entry, None
        case (str() as signal, payload):
            pass
        case {"name": str() as signal, "args": list() as args} if len(args) > 1:
            texts = [Payload(converter.encode(one, name=f"{path}.args")) for one in args]
            whole = Payload(converter.encode(args, name=f"{path}.args"))
            return FirstSignal(check_id(signal, path), whole, args=tuple(texts))
        case (str() as signal, *several) if len(several) > 1:
            each = tuple(Payload(converter.encode(value, name=f"{path}.args")) for value in several)
            return FirstSignal(check_id(signal, path), args=each)
        case {"name": str() as signal}:
            payload = entry.get("payload")
        case _:
            raise Invalid(f"{path} must be a name, (name, payload) or a mapping with both", field=path)
    name = check_id(signal, path)
    return FirstSignal(name, NULL if payload is None else Payload(converter.encode(payload, name=f"{path}.payload")))


_READERS: Final[dict[str, Reader]] = {
    **by_option(
        {
            OptionKind.OBJECT: _read_object,
            OptionKind.DURATION: _read_duration,
            OptionKind.RETRY: _read_retry,
            OptionKind.REUSE: _read_reuse,
            OptionKind.TEXT: _read_words,
            OptionKind.PRIORITY: _read_priority,
            OptionKind.LIST: _read_scope,
        }
    ),
    "context": _read_context,
    "search_attributes": _read_search,
    "type": lambda _converter, _name, _value: {},  # another name of the workflow
    "enable_eager_start": _read_flag,
    "messages": _read_messages,
    "args": lambda _converter, _name, _value: {},  # become the input
    "task_queue": _read_text,
    "namespace": _read_namespace,
    "id_conflict_policy": _read_conflict,
    "error_if_exists": _read_flag,
    "signals": _read_signals,
    "request_id": _read_text,
}
"""One reader per option; options that child starts share are read by their kind."""
