"""Encode errors of the engine, and create the worker's exceptions from them."""

from collections.abc import Mapping
from typing import Any, Final

from assay.core.model.errors import (
    AlreadyExists,
    AssayError,
    Invalid,
    Kind,
    NotFound,
    PermissionDenied,
    Refused,
    Unavailable,
)
from assay.worker_protocol.messages import Problem

_PREFIX: Final = "not found: "


def problem_of(error: BaseException) -> Problem:
    """Return an error in the form of messages; an exception of another library becomes an internal error."""
    if not isinstance(error, AssayError):
        return Problem(f"the engine could not answer: {error!r}", "unanswered", Kind.UNAVAILABLE.value)
    field = error.field if isinstance(error, Invalid) else None
    return Problem(str(error), error.code, error.kind.value, field)


def error_of_problem(problem: Problem) -> AssayError:
    """Return the exception for a problem in a message."""
    return error_of(problem.error, problem.code, Kind.parse(problem.kind), problem.field)


def error_of(
    message: str, code: str | None, kind: Kind, field: str | None = None, more: Mapping[str, Any] | None = None
) -> AssayError:
    """Return the exception for an error of this kind: the same as from an embedded engine."""
    match kind:
        case Kind.NOT_FOUND:
            return _about(NotFound(message.removeprefix(_PREFIX), code=code), more)
        case Kind.ALREADY_EXISTS:
            return AlreadyExists(message, existing=more, code=code)
        case Kind.INVALID:
            return Invalid(message, code=code, field=field)
        case Kind.CONFLICT:
            return _about(Refused(message, code=code), more)
        case Kind.UNAVAILABLE:
            return Unavailable(message, code=code)
        case Kind.PERMISSION_DENIED:
            return denied(message, code, 401 if code == "unauthorized" else 403)
    return AssayError(message, code=code, kind=kind)


def denied(message: str, code: str | None, status: int) -> PermissionDenied:
    """Return the exception for a refused caller."""
    error = PermissionDenied(message, code=code)
    error.status = status
    return error


def _about(error: NotFound | Refused, more: Mapping[str, Any] | None) -> AssayError:
    if more is not None:
        error.workflow_id, error.run_id = more.get("workflow_id"), more.get("run_id")
    return error
