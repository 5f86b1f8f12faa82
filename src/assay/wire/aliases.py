"""Aliases for the fields of commands, for workers in any language: names without their unit, a retry policy as an
object as in a start request, and durations as texts such as "1h30m".
"""

import re
from typing import Any, Final

import msgspec

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.events import DEFAULT_OPTIONS
from assay.core.model.ids import seconds
from assay.core.model.options import retry_policy
from assay.core.model.payload import Payload, is_empty, value_of

Fields = dict[str, msgspec.Raw]

FIELD_ALIASES: Final[dict[str, dict[str, str]]] = {
    "ScheduleActivity": {
        "start_to_close": "start_to_close_secs",
        "schedule_to_start": "schedule_to_start_secs",
        "schedule_to_close": "schedule_to_close_secs",
        "heartbeat": "heartbeat_timeout_secs",
        "heartbeat_timeout": "heartbeat_timeout_secs",
        "non_retryable_error_types": "non_retryable",
    },
    "RequestCancelActivity": {"command_id": "seq"},
    "CancelTimer": {"command_id": "seq"},
    "ContinueAsNew": {"search": "search_attributes"},
}
"""Field names by alias, for each command. If a command has both, the field's own name wins."""

_ALIASES: Final = sorted({"retry_policy", *(name for names in FIELD_ALIASES.values() for name in names)})
_ALIAS_PATTERN: Final = re.compile(rf'"(?:{"|".join(_ALIASES)})"'.encode())


def has_aliases(raw: Payload) -> bool:
    """Return whether a list of commands may contain aliases, which a decoder would silently drop."""
    return _ALIAS_PATTERN.search(raw) is not None


def canonical_fields(kind: str, fields: Fields, path: str) -> Fields:
    """Return a command's fields by their own names, with durations in seconds."""
    names = FIELD_ALIASES.get(kind, {})
    found = _policy(fields.pop("retry_policy"), path) if kind == "ScheduleActivity" and "retry_policy" in fields else {}
    for name, value in fields.items():
        own = names.get(name, name)
        if own == name or own not in fields:
            found[own] = _in_seconds(value, f"{path}.{name}") if own.endswith("_secs") else value
    return found


def _in_seconds(value: msgspec.Raw, path: str) -> msgspec.Raw:
    """Return a duration as a number; values other than texts are returned unchanged for the decoder to check."""
    if not bytes(value).startswith(b'"'):
        return value
    return _raw(seconds(parse_duration(value_of(value), path)))


def _policy(value: msgspec.Raw, path: str) -> Fields:
    """Return the command's own fields for a retry policy."""
    fields = {} if is_empty(value) else value_of(value)
    path = f"{path}.retry_policy"
    if not isinstance(fields, dict):
        raise Invalid(f"{path} must be an object", code="wrong_shape", field=path)
    try:
        policy = retry_policy(fields, DEFAULT_OPTIONS.retry)
    except Invalid as error:
        raise Invalid(f"{path}: {error}", code=error.code, field=f"{path}.{error.field}") from None
    return {
        "max_attempts": _raw(policy.max_attempts),
        "initial_interval_secs": _raw(seconds(policy.initial_interval)),
        "backoff_coefficient": _raw(policy.backoff),
        "maximum_interval_secs": _raw(seconds(policy.maximum_interval)),
        "non_retryable": _raw(policy.non_retryable),
    }


def _raw(value: Any) -> msgspec.Raw:
    return Payload(msgspec.json.encode(value))
