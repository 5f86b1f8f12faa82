"""Durable workflows in ordinary Python: every step is recorded, so a crash loses no work and repeats no finished step.

`from assay import workflow` has plain, blocking functions; `Client`, `Worker` and `App` are for asynchronous programs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from assay._version import __version__
from assay.sdk.client import connections

if TYPE_CHECKING:
    from assay import workflow
    from assay.core.model.errors import (
        ActivityError,
        AlreadyExists,
        AssayError,
        ChannelClosed,
        ChildError,
        Failure,
        Invalid,
        Kind,
        LinkedFailure,
        NonDeterminismError,
        NotFound,
        PermissionDenied,
        Unavailable,
        UnsupportedVersion,
        WorkflowCancelled,
        WorkflowFailed,
        WorkflowTerminated,
        WorkflowTimedOut,
    )
    from assay.sdk.app import App
    from assay.sdk.client.audit_entries import AuditEntryRecord
    from assay.sdk.client.client import Client
    from assay.sdk.client.handle import Handle
    from assay.sdk.client.records import (
        ActivityRecord,
        EventRecord,
        FailureRecord,
        FireRecord,
        NamespaceRecord,
        NamespaceStatsRecord,
        QueryRecord,
        QueueRecord,
        Record,
        RetryPolicyRecord,
        RetryRecord,
        ScheduleRecord,
        StartRecord,
        StateRecord,
        StuckRecord,
        WaitingOnRecord,
        WaitingRecord,
        WaitRecord,
        WorkerRecord,
        WorkflowRecord,
    )
    from assay.sdk.client.run_lists import AsyncRunList, BlockingRunList, Page, RunList
    from assay.sdk.ports import EngineConnection
    from assay.sdk.values.retry import Retry
    from assay.sdk.worker.worker import Worker
    from assay.sdk.workflow.activity_context import ActivityContext
    from assay.sdk.workflow.blocking_children import BlockingChild
    from assay.sdk.workflow.blocking_context import BlockingContext
    from assay.sdk.workflow.channels import Channel
    from assay.sdk.workflow.child_verbs import ChildHandle
    from assay.sdk.workflow.context import Context, Ctx
    from assay.sdk.workflow.message import Message
    from assay.sdk.workflow.peer_events import Event, EventKind
    from assay.sdk.workflow.replay.commands import DEFAULT_VERSION
    from assay.sdk.workflow.replay.exceptions import CancelRequested
    from assay.sdk.workflow.versions import version

__all__ = [
    "DEFAULT_VERSION",
    "ActivityContext",
    "ActivityError",
    "ActivityRecord",
    "AlreadyExists",
    "App",
    "AssayError",
    "AsyncRunList",
    "AuditEntryRecord",
    "BlockingChild",
    "BlockingContext",
    "BlockingRunList",
    "CancelRequested",
    "Channel",
    "ChannelClosed",
    "ChildError",
    "ChildHandle",
    "Client",
    "Context",
    "Ctx",
    "Event",
    "EventKind",
    "EventRecord",
    "Failure",
    "FailureRecord",
    "FireRecord",
    "Handle",
    "Invalid",
    "Kind",
    "LinkedFailure",
    "Message",
    "NamespaceRecord",
    "NamespaceStatsRecord",
    "NonDeterminismError",
    "NotFound",
    "Page",
    "PermissionDenied",
    "QueryRecord",
    "QueueRecord",
    "Record",
    "Retry",
    "RetryPolicyRecord",
    "RetryRecord",
    "RunList",
    "RunawayError",
    "ScheduleRecord",
    "StartRecord",
    "StateRecord",
    "StuckRecord",
    "Unavailable",
    "UnsupportedVersion",
    "WaitRecord",
    "WaitingOnRecord",
    "WaitingRecord",
    "Worker",
    "WorkerRecord",
    "WorkflowCancelled",
    "WorkflowFailed",
    "WorkflowRecord",
    "WorkflowTerminated",
    "WorkflowTimedOut",
    "__version__",
    "version",
    "workflow",
]

# The module of each name. Names are imported when they are first used, so that `import assay` is fast.
_HOMES = {
    "assay.sdk.workflow.activity_context": ("ActivityContext",),
    "assay.sdk.app": ("App",),
    "assay.sdk.workflow.blocking_children": ("BlockingChild",),
    "assay.sdk.workflow.blocking_context": ("BlockingContext",),
    "assay.sdk.workflow.channels": ("Channel",),
    "assay.sdk.workflow.child_verbs": ("ChildHandle",),
    "assay.sdk.client.audit_entries": ("AuditEntryRecord",),
    "assay.sdk.client.client": ("Client",),
    "assay.sdk.workflow.context": ("Context", "Ctx"),
    "assay.sdk.client.handle": ("Handle",),
    "assay.sdk.client.records": (
        "ActivityRecord",
        "EventRecord",
        "FailureRecord",
        "FireRecord",
        "NamespaceRecord",
        "NamespaceStatsRecord",
        "QueryRecord",
        "QueueRecord",
        "Record",
        "RetryPolicyRecord",
        "RetryRecord",
        "ScheduleRecord",
        "StartRecord",
        "StateRecord",
        "StuckRecord",
        "WaitRecord",
        "WaitingOnRecord",
        "WaitingRecord",
        "WorkerRecord",
        "WorkflowRecord",
    ),
    "assay.sdk.workflow.message": ("Message",),
    "assay.sdk.workflow.replay.commands": ("DEFAULT_VERSION",),
    "assay.sdk.workflow.peer_events": ("Event", "EventKind"),
    "assay.sdk.workflow.replay.exceptions": ("CancelRequested",),
    "assay.sdk.workflow.versions": ("version",),
    "assay.sdk.values.retry": ("Retry",),
    "assay.sdk.client.run_lists": ("AsyncRunList", "BlockingRunList", "Page", "RunList"),
    "assay.sdk.worker.worker": ("Worker",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "workflow":
        return importlib.import_module("assay.workflow")
    if name not in __all__:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME_OF.get(name, "assay.core.model.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _embedded(url: str, token: str | None, timeout_seconds: float) -> EngineConnection:
    from assay.embedded.hosted_engine import other_loop

    loop = other_loop(url)
    if loop is not None:
        from assay.embedded.bridge import BridgedTransport

        return BridgedTransport(url, loop)
    from assay.embedded.transport import EmbeddedTransport

    return EmbeddedTransport(url)


def _over_http(url: str, token: str | None, timeout_seconds: float) -> EngineConnection:
    from assay.sdk.client.http.transport import HttpTransport

    return HttpTransport(url, token, timeout_seconds)


for _scheme in ("sqlite", "postgres", "postgresql"):
    connections.register(_scheme, _embedded)
for _scheme in ("http", "https"):
    connections.register(_scheme, _over_http)
