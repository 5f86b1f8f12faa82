"""Parses the filters of a list of runs into a `RunFilter`; values are typed: 5 is not "5"."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assay.core.model.errors import Invalid
from assay.core.model.explanation import KINDS, OPERATOR, PERSON
from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import LARGEST_RUNS_PAGE, RUNS_PAGE
from assay.core.model.run import CLOSED_STATUSES, OPEN_STATUSES
from assay.core.rules.attributes import KEY_PATTERN
from assay.storage.ports import RunFilter

# WAITING is a status of the wire format that no run has.
STATUSES: Final = (*OPEN_STATUSES, "WAITING", *CLOSED_STATUSES)
OPENNESS: Final = {"OPEN": True, "CLOSED": False}
"""Values of the status filter that stand for several statuses."""
LARGEST_LIMIT: Final = LARGEST_RUNS_PAGE
ATTENTION_FILTERS: Final = (OPERATOR, PERSON)
LARGEST_RUN_IDS: Final = 200
_LATEST: Final = 2**62


def run_filter(namespace: str, filters: Mapping[str, Any]) -> RunFilter:
    """Return the filter that `filters` describe; raise `Invalid` for a bad value. Unknown names are ignored.

    `cursor` is the creation time and the run id of the last run of the previous page.
    """
    given = {name: value for name, value in filters.items() if value is not None}
    status, statuses = _statuses(given.get("status"))
    return RunFilter(
        namespace=namespace,
        status=None if status in OPENNESS else status,
        statuses=statuses,
        open=OPENNESS.get(status or ""),
        stuck=_flag(given, "stuck"),
        workflow_type=_text(given, "type"),
        task_queue=_text(given, "queue"),
        workflow_id=_text(given, "workflow_id"),
        parent_id=_text(given, "parent_id"),
        created_after=_time(given, "created_after"),
        created_before=_time(given, "created_before"),
        search=tuple(_search(given.get("search_attrs", {}))),
        change_version=_text(given, "change_version"),
        text=_text(given, "text"),
        run_ids=_run_ids(given.get("run_ids")),
        roots=_flag(given, "roots") or False,
        close_reason=_text(given, "close_reason"),
        schedule=_text(given, "schedule"),
        worker=_text(given, "worker"),
        error=_text(given, "error"),
        attention=_words(given.get("attention"), ATTENTION_FILTERS, "attention"),
        waiting=_words(given.get("waiting"), KINDS, "waiting"),
        failure=_text(given, "failure"),
        closed_after=_time(given, "closed_after"),
        closed_before=_time(given, "closed_before"),
        cursor=given.get("cursor"),
        offset=_count(given, "offset", 0, range(_LATEST)),
        limit=_count(given, "limit", RUNS_PAGE, range(1, LARGEST_LIMIT + 1)),
    )


def _statuses(value: object) -> tuple[str | None, tuple[str, ...]]:
    """Return a single status, or all statuses of a list with commas, in which `open` and `closed` stand for several."""
    words = [word.strip() for word in str(value).split(",")] if isinstance(value, str) else [value]
    if len(words) == 1:
        return _status(words[0]), ()
    found: dict[str, None] = {}
    for word in words:
        if word == "":
            continue
        status = _status(word) or ""
        several = OPEN_STATUSES if status == "OPEN" else CLOSED_STATUSES if status == "CLOSED" else (status,)
        found.update(dict.fromkeys(several))
    return None, tuple(found)


def _words(value: object, known: Sequence[str], name: str) -> tuple[str, ...]:
    words = [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else []
    for word in words:
        if word not in known:
            raise Invalid(f"{name} is {word!r}; it can be {', '.join(known)}", field=name)
    return tuple(dict.fromkeys(words))


def _run_ids(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(run_id, str) for run_id in found):
        raise Invalid("run_ids must be run ids with commas between them", field="run_ids")
    if len(found) > LARGEST_RUN_IDS:
        raise Invalid(f"run_ids has at most {LARGEST_RUN_IDS} run ids", field="run_ids")
    return tuple(dict.fromkeys(found))


def _status(value: object) -> str | None:
    if value is None:
        return None
    status = str(value).upper()
    if status not in STATUSES and status not in OPENNESS:
        raise Invalid(f"status is '{value}'; it can be {', '.join(STATUSES)}, or open or closed", field="status")
    return status


def _flag(given: Mapping[str, Any], name: str) -> bool | None:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise Invalid(f"{name} must be true or false, not {value!r}", field=name)
    return value


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"{name} must be a text, not {type(value).__name__}", field=name)
    return value


def _time(given: Mapping[str, Any], name: str) -> Time | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{name} must be a time in seconds since the epoch", field=name)
    return round(max(-_LATEST, min(value * SECOND, _LATEST)))  # bounded first: the product may be infinite


def _count(given: Mapping[str, Any], name: str, default: int, allowed: range) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise Invalid(f"{name} must be a whole number from {allowed[0]} to {allowed[-1]:,}", field=name)
    return value


def _search(attributes: object) -> Iterator[tuple[str, object]]:
    if not isinstance(attributes, Mapping):
        raise Invalid("search_attrs must be an object", field="search_attrs")
    for key, value in attributes.items():
        path = f"search_attrs.{key}"
        if not isinstance(key, str) or not KEY_PATTERN.match(key):
            raise Invalid(f"search attribute '{key}': a key is a letter followed by letters, digits or _", field=path)
        if any(isinstance(part, float) and not math.isfinite(part) for part in _elements(value)):
            raise Invalid(f"{path} must be a finite number", field=path)
        yield key, value


def _elements(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else (value,)
