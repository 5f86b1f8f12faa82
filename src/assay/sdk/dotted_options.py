"""Options under dotted keys, `workflow.run_timeout` or `temporal.workflow.run_timeout`, as plain options.

Numbers behind dotted keys are milliseconds, also in a retry policy. A key without the prefix `temporal.` is used if
both are given.
"""

from collections.abc import Mapping
from typing import Any, Final

from assay.core.model.errors import Invalid
from assay.sdk.arguments import check_mapping, nearest

_LEGACY_PREFIX: Final = "temporal."
_SAME_WORKFLOW: Final = (
    *("id", "task_queue", "namespace", "id_conflict_policy", "id_reuse_policy", "cron_schedule", "memo"),
    *("search_attributes", "enable_eager_start", "parent_close_policy", "wait_for_cancellation", "summary", "details"),
    "priority",
)
_SAME_ACTIVITY: Final = ("id", "task_queue", "wait_for_cancellation", "disable_eager_execution", "summary", "priority")
_DURATIONS: Final = {
    "workflow": ("execution_timeout", "run_timeout", "task_timeout", "start_delay"),
    "activity": (
        *("schedule_to_close_timeout", "schedule_to_start_timeout", "start_to_close_timeout", "heartbeat_timeout"),
        *("schedule_to_close", "schedule_to_start", "start_to_close", "heartbeat"),
    ),
}
_NAMES: Final[dict[str, str]] = {
    **{f"workflow.{name}": name for name in (*_SAME_WORKFLOW, *_DURATIONS["workflow"], "retry_policy")},
    "workflow.execution_error_when_already_started": "error_if_exists",
    **{f"activity.{name}": name for name in (*_SAME_ACTIVITY, "retry_policy")},
    **{f"activity.{name}": name.removesuffix("_timeout") for name in _DURATIONS["activity"]},
}
"""The plain option of each dotted key."""
_MILLISECONDS: Final = frozenset(f"{kind}.{name}" for kind, names in _DURATIONS.items() for name in names)
_WITHOUT_MEANING: Final = frozenset(("workflow.versioning_override", "workflow.versioning_intent"))
"""Keys that are accepted and do nothing: this engine has `ctx.version` instead."""
_INTERVALS: Final = ("initialinterval", "maximuminterval")


def plain_options(options: Mapping[Any, Any], kind: str) -> dict[str, Any]:
    """Return options with plain names; those that have plain names are unchanged.

    Args:
        options: The options, with plain names or dotted keys.
        kind: `workflow` or `activity`: the kind of the dotted keys that are allowed.

    Raises:
        Invalid: A dotted key is unknown or belongs elsewhere, or a name is no text.
    """
    plain: dict[str, Any] = {}
    dotted: dict[str, Any] = {}
    for key, value in check_mapping(options, "options").items():
        if not isinstance(key, str) or not key:
            raise Invalid("the name of an option is a text that is not empty", field="options")
        if "." not in key:
            plain[key] = value
            continue
        name = key.removeprefix(_LEGACY_PREFIX)
        if name in _WITHOUT_MEANING:
            continue
        if name not in _NAMES:
            raise Invalid(f"there is no option '{key}'; {nearest(name, _NAMES)}", field=key)
        if not name.startswith(f"{kind}."):
            place = "ctx.activities({...})" if kind == "workflow" else "with_options({...}) of a start"
            raise Invalid(f"option '{key}' goes to {place}", field=key)
        if name == key or _NAMES[name] not in dotted:  # the key without the prefix is used if both are given
            dotted[_NAMES[name]] = _converted(name, key, value)
    return {**plain, **dotted}


def _converted(name: str, key: str, value: Any) -> Any:
    """Return a value of a dotted key: durations in seconds, and a priority as its number."""
    if name in _MILLISECONDS:
        return _seconds(value, key)
    if name.endswith(".retry_policy") and isinstance(value, Mapping):
        return {field: _seconds(entry, key) if _is_interval(field) else entry for field, entry in value.items()}
    if name.endswith(".priority") and isinstance(value, Mapping):
        if "priority_key" not in value:
            raise Invalid(f"{key} is a number, or a mapping with priority_key", field=key)
        return value["priority_key"]
    return value


def _is_interval(field: object) -> bool:
    return str(field).lower().replace("_", "").replace("-", "") in _INTERVALS


def _seconds(value: Any, key: str) -> Any:
    """Return a number of milliseconds in seconds; other values, such as "1h30m", are checked with their option."""
    if isinstance(value, bool):
        raise Invalid(f"{key} must be a number of milliseconds or a text such as '1h30m'", field=key)
    return value / 1_000 if isinstance(value, int | float) else value
