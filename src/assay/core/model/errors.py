"""The exceptions of assay, each with a stable code and a kind.

    AssayError
    ├── Failure                  the failure of a workflow or an activity
    │   ├── ActivityError        an activity or a step failed for good
    │   ├── ChildError           a child workflow closed without a result
    │   ├── LinkedFailure        a linked workflow failed
    │   ├── WorkflowFailed
    │   ├── WorkflowCancelled
    │   ├── WorkflowTerminated
    │   └── WorkflowTimedOut
    ├── AlreadyExists            the id has an open run
    ├── NotFound
    ├── Invalid                  a value of the caller cannot be accepted
    ├── ChannelClosed            a send to a closed channel, or a receive from an empty one
    ├── NonDeterminismError      the code does not follow its history
    ├── UnsupportedVersion       the code does not support the version of a change that a run has
    ├── RunawayError             workflow code computes without waiting for anything
    ├── Unavailable              the engine cannot be reached, or is overloaded
    ├── PermissionDenied         the credential is missing, wrong, or grants too little (HTTP 401, 403)
    ├── ReadOnly                 internal: a change where a file is only read (HTTP 403)
    └── Refused                  internal: a request that came too late or to the wrong run (HTTP 409)

Every class can be constructed from a message alone, because pickling and copying need this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypedDict, Unpack


class Kind(StrEnum):
    """The category of an error: eleven words with the same meaning in every language.

    A member equals both spellings, `"NOT_FOUND"` and `"NotFound"`, but has the hash of the first: in a dict or a set
    only `"NOT_FOUND"` finds the member.
    """

    UNKNOWN = "UNKNOWN"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    INVALID = "INVALID"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"
    CANCELED = "CANCELED"
    CONFLICT = "CONFLICT"
    TIMEOUT = "TIMEOUT"
    RATE_LIMITED = "RATE_LIMITED"

    @classmethod
    def parse(cls, text: str) -> Kind:
        """Return the kind that `text` spells in upper snake, Pascal or kebab case.

        Args:
            text: The spelled kind, such as `"NotFound"`.

        Returns:
            The kind; UNKNOWN for other texts.
        """
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\s\-]+", "_", text.strip()).upper()
        if snake == "CANCELLED":
            return cls.CANCELED
        return cls.__members__.get(snake, cls.UNKNOWN)

    @classmethod
    def _missing_(cls, value: object) -> Kind:
        """Decode kinds of other versions as UNKNOWN, instead of refusing the whole body."""
        return cls.parse(value) if isinstance(value, str) else cls.UNKNOWN

    @property
    def pascal(self) -> str:
        """Return the spelling in Pascal case, for example `NotFound`."""
        return self._value_.title().replace("_", "")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Kind):
            return self is other
        return isinstance(other, str) and (other == self._value_ or other == self.pascal)

    def __ne__(self, other: object) -> bool:
        # The __ne__ of str would not call __eq__.
        return not self == other

    def __hash__(self) -> int:
        return hash(self._value_)


def text_of(value: object) -> str:
    """Return `value` as a text; the message of a failure may be another exception, or a number."""
    if isinstance(value, str):
        return value
    try:
        return str(value) or repr(value)
    except Exception:  # noqa: BLE001 - a class of the user may raise anything, and the failure must not be lost
        return f"<{type(value).__name__}>"


class AssayError(Exception):
    """The base class of all errors of assay."""

    code: str = "error"
    kind: Kind = Kind.UNKNOWN

    def __init__(self, message: str, *, code: str | None = None, kind: Kind | str | None = None) -> None:
        self.message = text_of(message)
        super().__init__(self.message)
        if code is not None:
            self.code = code
        if kind is not None:
            self.kind = Kind(kind)

    def __str__(self) -> str:
        return self.message


class FailureFields(TypedDict, total=False):
    """The keyword arguments of every failure."""

    kind: Kind | str
    retryable: bool | None
    details: Any
    type: str | None
    stack: str | None
    cause: Failure | None


class Failure(AssayError):
    """The failure of a workflow or an activity; raise it to choose kind, details and whether to retry.

    `retryable=False` prevents retries, whatever the policy; None leaves the choice to the policy. A `kind` other than
    the members of `Kind` becomes the `type`, with the kind UNKNOWN: a policy's `non_retryable` can name either.
    """

    code = "failure"
    # The origin of a recorded failure; set only in failures that were read from a history.
    source: str | None = None
    retry_state: str | None = None
    timeout_type: str | None = None

    def __init__(
        self,
        message: str,
        *,
        kind: Kind | str = Kind.INTERNAL,
        retryable: bool | None = None,
        details: Any = None,
        type: str | None = None,
        stack: str | None = None,
        cause: Failure | None = None,
    ) -> None:
        super().__init__(message, kind=kind)
        self.retryable = _flag(retryable)
        self.details = details
        self.type = _own_kind(kind) if type is None else text_of(getattr(type, "__name__", type))
        self.stack = None if stack is None else text_of(stack)
        self.cause = cause
        if cause is not None:
            self.__cause__ = cause

    def matches(self, *classes: type[BaseException] | str) -> bool:
        """Return whether the class of the failure is among the given classes, each a class or its name.

        A failure has only the name of its class, in `type`, because another program may lack the class. Names are
        compared, and a base class does not match.

        Args:
            *classes: Exception classes, or their names.

        Returns:
            True if the failure was raised as one of them.
        """
        return self.type is not None and self.type in [getattr(one, "__name__", one) for one in classes]

    def _described(self) -> str:
        """Return the message after the name of the exception's class, as Python prints an exception.

        For a group the text goes on with its cause, the first exception, because the message only counts exceptions.
        """
        text = self.message if not self.type or self.message.startswith(self.type) else f"{self.type}: {self.message}"
        is_group = self.type in ("ExceptionGroup", "BaseExceptionGroup")
        return f"{text}: {self.cause._described()}" if is_group and self.cause is not None else text

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        # Exceptions do not pickle __cause__, and a traceback without the cause hides the reason.
        super().__setstate__(state)
        if self.cause is not None:
            self.__cause__ = self.cause


def _own_kind(kind: object) -> str | None:
    """Return a kind that is not among the eleven members of `Kind`; None for a member."""
    if not isinstance(kind, str) or isinstance(kind, Kind):
        return None
    text = kind.strip()
    unknown = Kind.parse(text) is Kind.UNKNOWN and text.upper() != Kind.UNKNOWN.value
    return text if text and unknown else None


def _flag(retryable: object) -> bool | None:
    """Return True, False or None; accept 1 and 0. A failure with another value could not be decoded."""
    if retryable is None or isinstance(retryable, bool):
        return retryable
    if isinstance(retryable, int) and retryable in (0, 1):
        return bool(retryable)
    raise Invalid(f"retryable is True, False or None, not {retryable!r}", field="retryable")


class ActivityError(Failure):
    """An activity or a step failed for good: no attempt is left, or its failure may not be retried.

    Message, kind, type, details and stack are copied from the `cause`, the failure of the last attempt.
    """

    code = "activity_failed"

    def __init__(
        self,
        message: str,
        *,
        activity: str = "",
        attempts: int = 0,
        retry_state: str | None = None,
        **fields: Unpack[FailureFields],
    ) -> None:
        super().__init__(message, **fields)
        self.activity = activity
        self.attempts = attempts
        self.retry_state = retry_state

    def __str__(self) -> str:
        if not self.activity:
            return self.message
        tries = f" after {self.attempts} attempts" if self.attempts > 1 else ""
        what = "step" if self.source == "step" else "activity"
        return f"{what} {self.activity!r} failed{tries}: {self._described()}"


class ChildError(Failure):
    """A child workflow failed, was cancelled or terminated, ran out of time, or could not be started.

    Message, kind, type, details and stack are copied from the `cause`, the failure of the child.
    """

    code = "child_failed"

    def __init__(
        self,
        message: str,
        *,
        workflow_id: str = "",
        run_id: str = "",
        workflow_type: str = "",
        close_reason: str | None = None,
        **fields: Unpack[FailureFields],
    ) -> None:
        super().__init__(message, **fields)
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.workflow_type = workflow_type
        self.close_reason = close_reason

    def __str__(self) -> str:
        if not self.workflow_id:
            return self.message
        return f"child workflow {self.workflow_id!r} did not complete: {self._described()}"


class _ClosedWithoutResult(Failure):
    """The common part of the four errors for a run that closed without a result."""

    _verb = "failed"

    def __init__(
        self, message: str, *, workflow_id: str = "", run_id: str = "", **fields: Unpack[FailureFields]
    ) -> None:
        # The default is the kind of the class, not the INTERNAL of Failure: a cancelled run is CANCELED.
        fields.setdefault("kind", self.kind)
        super().__init__(message, **fields)
        self.workflow_id = workflow_id
        self.run_id = run_id

    def __str__(self) -> str:
        return f"workflow {self.workflow_id!r} {self._verb}: {self._described()}" if self.workflow_id else self.message


class WorkflowFailed(_ClosedWithoutResult):
    """The run failed: its code raised, or an operator failed it."""

    code = "workflow_failed"
    kind = Kind.INTERNAL


class WorkflowCancelled(_ClosedWithoutResult):
    """The run ended because its cancellation was requested."""

    code = "workflow_cancelled"
    kind = Kind.CANCELED
    _verb = "was cancelled"


class WorkflowTerminated(_ClosedWithoutResult):
    """The run was ended from outside, without notice to its code."""

    code = "workflow_terminated"
    kind = Kind.CANCELED
    _verb = "was terminated"


class WorkflowTimedOut(_ClosedWithoutResult):
    """The run was still open when its time limit passed."""

    code = "workflow_timed_out"
    kind = Kind.TIMEOUT
    _verb = "timed out"


class LinkedFailure(Failure):
    """A linked workflow failed: raised where the main coroutine of a workflow waits that does not trap links.

    Kind and message are copied from the `cause`, the failure of the linked workflow; `details` has its address as
    `linked_pid`.
    """

    code = "linked_failure"


class AlreadyExists(AssayError):
    """The id is in use; `existing` has the `workflow_id`, `run_id` and `status` of the run that uses the id."""

    code = "already_exists"
    kind = Kind.ALREADY_EXISTS

    def __init__(self, message: str, *, existing: Mapping[str, object] | None = None, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.existing: Mapping[str, object] = {} if existing is None else existing


class NotFound(AssayError):
    """The workflow, run, schedule, namespace or handler does not exist."""

    code = "not_found"
    kind = Kind.NOT_FOUND
    # The run that the request named, if known.
    workflow_id: str | None = None
    run_id: str | None = None


class Invalid(AssayError):
    """A value cannot be accepted; `field` is the path to the value, for example `input.items[3].price`."""

    code = "invalid"
    kind = Kind.INVALID
    retryable: bool | None = None
    """False for a result that cannot be recorded: the work was done, and another attempt would not help."""

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message, code=code)
        self.field = field


class ChannelClosed(AssayError):
    """A channel of workflow code is closed: nothing can be sent to it, or no value is left in it."""

    code = "channel_closed"
    kind = Kind.INVALID


class NonDeterminismError(AssayError):
    """Replayed code produced another command than its history records."""

    code = "non_determinism"
    kind = Kind.CONFLICT

    def __init__(
        self,
        message: str | None = None,
        *,
        step: int | str | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        super().__init__(message or f"step {step}: the history says {expected}, the code did {found}")
        self.step = step
        self.expected = expected
        self.found = found


class UnsupportedVersion(AssayError):
    """The version of a change that a run has is outside of the versions that its code supports.

    The task fails, whatever the code makes of the exception, and the run is stuck until code is deployed that supports
    the version.
    """

    code = "unsupported_version"
    kind = Kind.CONFLICT

    def __init__(self, message: str | None = None, *, change_id: str = "", version: int = -1) -> None:
        super().__init__(message or f"version {version} of change '{change_id}' is not supported by the code")
        self.change_id = change_id
        self.version = version


class RunawayError(AssayError):
    """Workflow code computes for longer than its task may take, without waiting for anything.

    The worker raises the error in the code itself. The task fails, and the run is stuck until the code is replaced.
    """

    code = "runaway"
    kind = Kind.TIMEOUT

    def __init__(
        self,
        message: str = "the workflow computes without waiting for anything: wait in every loop, and compute in an"
        " activity or in ctx.run",
    ) -> None:
        super().__init__(message)


class Unavailable(AssayError):
    """The engine cannot be reached or cannot accept more work now; the same call may succeed later."""

    code = "unavailable"
    kind = Kind.UNAVAILABLE


class PermissionDenied(AssayError):
    """A call without a valid credential, or with a credential that grants too little."""

    code = "forbidden"
    kind = Kind.PERMISSION_DENIED
    status: int | None = None
    """The HTTP status: 401 without a valid credential, 403 with a role that grants too little."""


class ReadOnly(AssayError):
    """A change was requested of a process that only reads a database file."""

    code = "read_only"
    kind = Kind.PERMISSION_DENIED

    def __init__(
        self,
        message: str = "the file is only read here: changes need the engine that uses it, the program's own or one of"
        " `assay serve`",
    ) -> None:
        super().__init__(message)


class Refused(AssayError):
    """The engine refused a request and changed nothing: `stale_task`, `run_closed`, `already_reported`, ..."""

    code = "refused"
    kind = Kind.CONFLICT
    # The run that the request named, if known.
    workflow_id: str | None = None
    run_id: str | None = None


for _public in (
    AssayError,
    Failure,
    ActivityError,
    ChildError,
    WorkflowFailed,
    WorkflowCancelled,
    WorkflowTerminated,
    WorkflowTimedOut,
    AlreadyExists,
    NotFound,
    Invalid,
    ChannelClosed,
    LinkedFailure,
    NonDeterminismError,
    UnsupportedVersion,
    RunawayError,
    Unavailable,
    PermissionDenied,
):
    _public.__module__ = "assay"  # tracebacks show the name that programs import
