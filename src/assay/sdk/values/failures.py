"""Exceptions to recorded failures and back; recording never fails, whatever exception was raised."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from assay.core.model.errors import ActivityError, AssayError, ChildError, Failure, Invalid, Kind, text_of
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.sdk.values.converter import Converter

FAILURE_TEXT_LIMIT: Final = 8 * 1024
STACK_LIMIT: Final = 32 * 1024
# With these limits a failure with ten causes is smaller than the limit of a payload.
DETAILS_LIMIT: Final = 128 * 1024
CAUSES_LIMIT: Final = 10
COMPENSATION_ERRORS: Final = "compensation_errors"
"""The failures of compensations: a key of a failure's details, and an attribute of other exceptions."""

OWN_FILES: Final = str(Path(__file__).resolve().parents[2]) + "/"
_CUT: Final = "\n  ... cut ...\n"
_converter: Final = Converter()
_F = TypeVar("_F", bound=Failure)


def to_info(error: BaseException, *, source: str | None = None) -> FailureInfo:
    """Return the failure that records `error` with its causes; `source` is the kind of code that raised."""
    return _to_info(error, source, CAUSES_LIMIT)


def to_exception(info: FailureInfo, cls: type[_F] = Failure, **fields: Any) -> _F:  # type: ignore[assignment]
    """Return the exception of class `cls` for a recorded failure; `fields` are the additional fields of `cls`."""
    error = cls(
        info.message,
        kind=info.kind,
        retryable=info.retryable,
        details=_details_of(info),
        type=info.type,
        stack=info.stack,
        cause=to_exception(info.cause) if info.cause is not None else None,
        **fields,
    )
    error.source = info.source
    error.timeout_type = info.timeout_type
    error.retry_state = fields.get("retry_state", info.retry_state)
    return error


def to_wrapper(info: FailureInfo, cls: type[_F], **fields: Any) -> _F:
    """Return the exception of class `cls` for workflow code, whose cause is the failure of an activity or child."""
    error = to_exception(info, cls, **fields)
    error.cause = error.__cause__ = to_exception(info)
    return error


def judged(info: FailureInfo, error: BaseException, policy: RetryPolicy) -> FailureInfo:
    """Mark a failure as final if the policy lists the exception's class or a base class."""
    if policy.non_retryable and any(base.__name__ in policy.non_retryable for base in type(error).__mro__):
        return msgspec.structs.replace(info, retryable=False)
    return info


def shown(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType] | None:
    """Return `exc_info` for a log: the traceback without frames of this package, or None if no other frame is left."""
    foreign: TracebackType | None = None
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(OWN_FILES):
            foreign = TracebackType(foreign, frame, frame.f_lasti, line)
    return None if foreign is None else (type(error), error, foreign)


def _details_of(info: FailureInfo) -> Any:
    details = _converter.decode(info.details)
    return {"timeout_type": info.timeout_type} if details is None and info.timeout_type else details


def _to_info(error: BaseException, source: str | None, causes: int) -> FailureInfo:
    cause = error.__cause__ or getattr(error, "cause", None) or _first_member(error)
    chained = _to_info(cause, None, causes - 1) if isinstance(cause, BaseException) and causes else None
    if isinstance(error, Failure):
        with contextlib.suppress(Exception):  # a user's subclass may lack fields of a Failure
            return _from_failure(error, source, chained)
    name = type(error).__name__
    compensation_errors = getattr(error, COMPENSATION_ERRORS, None)
    more = {COMPENSATION_ERRORS: compensation_errors} if compensation_errors else {}
    return FailureInfo(
        kind=_kind_of(error),
        message=_message_of(error),
        retryable=_retryable(error),
        details=_details({"type": name, **more}),
        type=_clean(name, FAILURE_TEXT_LIMIT),
        stack=_stack_of(error),
        cause=chained,
        source=source,
    )


def _from_failure(error: Failure, source: str | None, cause: FailureInfo | None) -> FailureInfo:
    own = type(error).__module__.partition(".")[0] == "assay"
    name = error.type or (None if own else type(error).__name__)  # a user's subclass is recorded by its name
    return FailureInfo(
        kind=Kind(error.kind),
        message=_clean(text_of(error.message), FAILURE_TEXT_LIMIT),
        retryable=None if error.retryable is None else bool(error.retryable),
        details=NULL if error.details is None else _details(error.details),
        type=None if name is None else _clean(text_of(name), FAILURE_TEXT_LIMIT),
        stack=_stack_in(error),
        cause=cause,
        source=source or _word(error.source),
        retry_state=_word(error.retry_state),
        timeout_type=_word(error.timeout_type),
    )


def _stack_in(error: Failure) -> str | None:
    """Return the stack of a failure: the recorded one, but for a wrapper the place where the wrapper was raised."""
    recorded = None if error.stack is None else _clean(text_of(error.stack), STACK_LIMIT)
    if recorded is None or isinstance(error, ActivityError | ChildError):
        return _stack_of(error) or recorded
    return recorded


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _kind_of(error: BaseException) -> Kind:
    if isinstance(error, AssayError):
        return Kind(error.kind)
    return Kind.CANCELED if isinstance(error, asyncio.CancelledError) else Kind.INTERNAL


def _retryable(error: BaseException) -> bool | None:
    if isinstance(error, Invalid):
        return error.retryable
    return False if isinstance(error, asyncio.CancelledError) else None


def _message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - user code, and no reason to lose the failure
        text = ""
    if not text and isinstance(error, asyncio.CancelledError):
        return "operation canceled"
    return _clean(text or type(error).__name__, FAILURE_TEXT_LIMIT)


def _first_member(error: BaseException) -> BaseException | None:
    """Return the first exception in a group: the reason for which a `TaskGroup` failed."""
    return error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None


def _details(value: Any) -> Payload:
    try:
        return Payload(_converter.encode(value, name="details", limit=DETAILS_LIMIT))
    except Exception as problem:  # noqa: BLE001 - user code, and no reason to lose the failure
        described = problem.message if isinstance(problem, Invalid) else type(problem).__name__
        shown = {
            "unencodable": _clean(_repr(value), FAILURE_TEXT_LIMIT),
            "problem": _clean(described, FAILURE_TEXT_LIMIT),
        }
        return Payload(msgspec.json.encode(shown))


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - user code, and no reason to lose the failure
        return f"<{type(value).__name__}>"


def _stack_of(error: BaseException) -> str | None:
    """Return the traceback without frames of this package, or None if `error` was never raised."""
    if error.__traceback__ is None:
        return None
    try:
        described = traceback.TracebackException.from_exception(error)
        _drop_own_frames(described)
        return _clean("".join(described.format(chain=False)), STACK_LIMIT)
    except Exception as problem:  # noqa: BLE001 - reads source files and calls user code
        return f"{type(error).__name__} (its traceback could not be formatted: {type(problem).__name__})"


def _drop_own_frames(described: traceback.TracebackException) -> None:
    foreign = [frame for frame in described.stack if not frame.filename.startswith(OWN_FILES)]
    if foreign:
        described.stack = traceback.StackSummary.from_list(foreign)
    for member in getattr(described, "exceptions", None) or ():
        _drop_own_frames(member)


def _clean(text: str, limit: int) -> str:
    """Return `text` as every store accepts it: no U+0000, no lone surrogate, at most `limit` bytes of UTF-8."""
    raw = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(raw) > limit:
        # The end of a traceback matters most, the beginning of a message: keep a part of both.
        head = (limit - len(_CUT)) // 2
        raw = raw[:head] + _CUT.encode() + raw[len(raw) - head :]
    return raw.decode("utf-8", "ignore")
