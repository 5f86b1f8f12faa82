"""Groups of failures: runs that failed alike have the same fingerprint, whatever their ids and numbers."""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from assay.core.model.errors import Kind
from assay.core.model.events import Event, WorkflowFailed, WorkflowTimedOut
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Time
from assay.core.model.run import Run, Stuck

WORKFLOW: Final = "workflow"
RUN, BLOCKED, ATTEMPT = "run", "blocked", "attempt"
SOURCES: Final = (RUN, BLOCKED, ATTEMPT)
"""A run that closed, a run that is stuck, and an activity between two tries."""
FINGERPRINT_DIGITS: Final = 16
MESSAGE_CHARACTERS: Final = 1_000
_LIBRARY: Final = re.compile(r"site-packages|dist-packages|/lib/python|<frozen|asyncio/|/assay/")
_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line \d+, in (?P<function>\S+)')
_VARIABLE: Final = (
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"),
    re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),
    re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`"),
    re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.@%+-]+)+[\\/]?"),
    re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"),
    re.compile(r"[-+]?\d+(?:[.,:]\d+)*"),
)
"""Parts of messages that differ from run to run: times, uuids, quoted texts, paths, hexadecimal and other numbers."""


class FailureFacts(msgspec.Struct, frozen=True):
    """The group of a failure, and what its runs have in common."""

    fingerprint: str
    source: str
    workflow_type: str
    where: str
    """The activity or step that failed, or `workflow`."""
    kind: str
    type: str | None
    message: str


def failure_of_close(run: Run, event: Event) -> FailureFacts | None:
    """Return the group of a run that an event closes; None if the run has not failed, or was terminated."""
    if isinstance(event, WorkflowFailed):
        failure, last = event.failure or FailureInfo(message=event.error), run.waits.failed
        caused = last is not None and any(info.message == last.error for info in _chain(failure))
        return grouped(run.start.workflow_type, failure, RUN, last.name if last is not None and caused else None)
    if isinstance(event, WorkflowTimedOut):
        message = event.error or f"workflow {event.scope} timed out"
        return grouped(run.start.workflow_type, FailureInfo(Kind.TIMEOUT, message, type=f"timeout {event.scope}"), RUN)
    return None


def failure_of_stuck(run: Run, stuck: Stuck) -> FailureFacts:
    """Return the group of a run whose task cannot be completed."""
    info = FailureInfo(message=stuck.message, type=stuck.reason)
    return grouped(run.start.workflow_type, info, BLOCKED)


def grouped(workflow_type: str, failure: FailureInfo, source: str, where: str | None = None) -> FailureFacts:
    """Return the group of a failure.

    Args:
        workflow_type: the type of the run.
        failure: the failure; the innermost cause with a place counts for the place.
        source: one of `SOURCES`.
        where: the activity or step, if the failure itself does not name it.
    """
    place = where or _place(failure)
    parts = (
        workflow_type,
        place,
        str(failure.kind.value),
        failure.type or "",
        plain(failure.message),
        _own_frame(failure),
    )
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()
    message = failure.message[:MESSAGE_CHARACTERS]
    return FailureFacts(
        digest[:FINGERPRINT_DIGITS], source, workflow_type, place, failure.kind.value, failure.type, message
    )


def plain(message: str) -> str:
    """Return a message with everything replaced that differs from run to run."""
    for pattern in _VARIABLE:
        message = pattern.sub("*", message)
    return message


def _chain(failure: FailureInfo) -> Iterator[FailureInfo]:
    found: FailureInfo | None = failure
    while found is not None:
        yield found
        found = found.cause


def _place(failure: FailureInfo) -> str:
    """Return the activity or step that a failure names in its message, or `workflow`."""
    for info in _chain(failure):
        named = re.match(r"(?:activity|step) '([^']+)'", info.message)
        if named is not None:
            return named[1]
    return WORKFLOW


def _own_frame(failure: FailureInfo) -> str:
    """Return file and function of the innermost frame that is not a library's; empty without a traceback."""
    for info in reversed(list(_chain(failure))):
        frames = [match for match in _FRAME.finditer(info.stack or "") if not _LIBRARY.search(match["file"])]
        if frames:
            return f"{frames[-1]['file'].rpartition('/')[2]} {frames[-1]['function']}"
    return ""


OPEN, MUTED, RESOLVED = "open", "muted", "resolved"
GROUP_STATES: Final = (OPEN, MUTED, RESOLVED)


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A stored group: what its runs have in common, what people said about it, and its numbers."""

    namespace: str
    fingerprint: str
    source: str
    workflow_type: str
    where: str
    kind: str
    type: str | None
    message: str
    first_seen: Time
    state: str = OPEN
    changed_at: Time | None = None
    until_at: Time | None = None
    until_count: int | None = None
    """The number of runs at which a muted group opens again."""
    until_build: str | None = None
    assignee: str | None = None
    note: str | None = None
    count: int = 0
    open: int = 0
    last_seen: Time = 0

    def current(self, now: Time) -> tuple[str, bool]:
        """Return the state of the group now, and whether it is a resolved group that has recurred."""
        if self.state == RESOLVED and self.changed_at is not None and self.last_seen > self.changed_at:
            return OPEN, True
        if self.state == MUTED:
            over = self.until_at is not None and self.until_at <= now
            full = self.until_count is not None and self.count >= self.until_count
            return (OPEN, False) if over or full else (MUTED, False)
        return self.state, False
