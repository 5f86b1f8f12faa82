"""Results of handlers and steps, encoded for the history."""

import inspect
from typing import Any, Final, Never, NoReturn

from assay.core.model.errors import Invalid
from assay.sdk.values.converter import Converter

_UNCHECKED: Final = frozenset((inspect.Parameter.empty, Any, object, Never, NoReturn))
_EXACT: Final[dict[Any, type]] = {
    **{kind: kind for kind in (str, int, bool, float, dict, list)},
    dict[str, Any]: dict,
    list[Any]: list,
}
"""Annotations whose values need no second reading: the JSON of a value of this type always fits."""


def encode_result(converter: Converter, value: Any, name: str, annotation: Any = Any) -> bytes:
    """Return the JSON of a result; raise an `Invalid` that is not retried if the result cannot be recorded.

    A result that does not fit the return annotation is refused, because typed readers could not decode it. The failure
    is final: another attempt would only repeat finished work.
    """
    try:
        raw = converter.encode(value, name=name)
        if annotation is not Any and not _fits(value, annotation):
            _check(converter, raw, name, annotation)
    except Invalid as error:
        error.retryable = False
        raise
    return raw


def _fits(value: Any, annotation: Any) -> bool:
    """Return whether the JSON of a value certainly fits an annotation; False if only decoding it shows that."""
    try:
        return _EXACT.get(annotation) is type(value) or annotation in _UNCHECKED
    except TypeError:  # not hashable
        return False


def _check(converter: Converter, raw: bytes, name: str, annotation: Any) -> None:
    """Raise `Invalid` unless readers can decode the result by the annotation."""
    try:
        converter.decode(raw, annotation, name=name)
    except Invalid as error:
        shown = annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
        message = f"{error.message}: the function is annotated with {shown}, so that the result is not recorded"
        raise Invalid(message, code=error.code, field=error.field) from error
