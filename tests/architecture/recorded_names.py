"""Names that are data: databases, histories, workers, dashboards and alarms know them, so no renaming may reach them.

`python -m tests.architecture.recorded_names > tests/architecture/recorded_names.json` writes the list anew. A change
that adds a name adds it there. A name that disappears from the list breaks whoever has recorded it.
"""

import ast
import json
import logging
import re
import sys
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from assay.api.openapi import description
from assay.core.model import commands, events
from assay.core.model.effects import OUTBOX_KINDS
from assay.core.model.run import CLOSED_STATUSES, OPEN_STATUSES, STUCK_REASONS
from assay.server.logs import JsonLines
from assay.storage.sql import notes, tables
from assay.storage.sqlite.ownership import Owner
from assay.wire.codes import ErrorCode
from assay.wire.stream_kinds import FIRED, RETRY_REQUESTED, RUNNING, kind_of
from assay.worker_protocol import messages
from tests.architecture.source import source_modules

METRIC = re.compile(r'"(assay_[a-z_]+)", "(?:gauge|counter)"|_histogram\(\s*"(assay_[a-z_]+)"')
LABEL = re.compile(r'"([a-z_]+)": ')


def recorded_names() -> dict[str, Any]:
    """Return every recorded name, by what it names."""
    return {
        "commands": {_tag(kind): _fields(kind) for kind in get_args(commands.AnyCommand)},
        "error codes": sorted(ErrorCode),
        "events": {name: _fields(kind) for name, kind in sorted(events.KINDS.items())},
        "lock file": _fields(Owner),
        "log fields": sorted({*_log_fields()}),
        "metrics": _metrics(),
        "notes": [notes.CLAIMS, notes.FIRES],
        "openapi": {
            name: _properties(schema) for name, schema in sorted(description()["components"]["schemas"].items())
        },
        "outbox kinds": sorted(OUTBOX_KINDS),
        "statuses": [*OPEN_STATUSES, *CLOSED_STATUSES],
        "stream kinds": sorted({RUNNING, FIRED, RETRY_REQUESTED, *map(kind_of, events.KINDS)}),
        "stuck reasons": sorted(STUCK_REASONS),
        "tables": _tables(),
        "worker messages": _messages(),
    }


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    return list(kind.__struct_encode_fields__)


def _tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


def _properties(schema: dict[str, Any]) -> list[str]:
    return sorted({*schema.get("properties", {}), *map(str, schema.get("enum", ()))})


def _messages() -> dict[str, list[str]]:
    reports = {f"report {_tag(kind)}": _fields(kind) for kind in get_args(messages.Report)}
    outcomes = {f"outcome {_tag(kind)}": _fields(kind) for kind in (messages.StepDone, messages.ActivityDone)}
    others = (
        *(messages.Hello, messages.WorkerMessage, messages.EngineMessage, messages.ReportAnswer, messages.Problem),
        *(messages.SentTask, messages.SentActivity, messages.SentEvent),
    )
    return {**reports, **outcomes, **{_message_name(kind): _fields(kind) for kind in others}}


def _message_name(kind: type[msgspec.Struct]) -> str:
    return kind.__name__ if kind is messages.Problem else messages.COMPONENT_NAMES.get(kind, kind.__name__)


def _tables() -> dict[str, list[str]]:
    """Return the columns that are written, by table."""
    columns: dict[str, set[str]] = {}
    for table in vars(tables).values():
        if isinstance(table, tables.Table):
            columns.setdefault(table.name, set()).update(table.names)
    return {name: sorted(found) for name, found in sorted(columns.items())}


def _metrics() -> dict[str, list[str]]:
    text = next(module.text for module in source_modules() if module.name == "assay.api.metrics")
    return {
        "names": sorted(name for found in METRIC.findall(text) for name in found if name),
        "labels": sorted(set(LABEL.findall(text))),
    }


def _log_fields() -> Iterable[str]:
    """Return the fields of every log line, and the keys that callers pass as `extra`."""
    line = JsonLines().format(logging.makeLogRecord({"exc_info": (ValueError, ValueError(), None)}))
    yield from json.loads(line)
    for module in source_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.keyword) and node.arg == "extra" and isinstance(node.value, ast.Dict):
                yield from (key.value for key in node.value.keys if isinstance(key, ast.Constant))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(recorded_names(), indent=1) + "\n")
