"""Return annotations of callables, cached: steps and side effects often create their function anew on each replay."""

import contextlib
import inspect
import re
from collections.abc import Callable, Hashable
from typing import Any, Final

from assay.sdk.direct_calls import original_of
from assay.sdk.values.signatures import signature_of

CACHED_FUNCTIONS: Final = 10_000
_OWN: Final = object()
"""Cached for an annotation that names a closure variable: resolved for each function, not once per code object."""
_known: dict[Hashable, Any] = {}


def result_annotation(function: Callable[..., Any]) -> Any:
    """Return the return annotation of `function`, or `Any`."""
    annotations = getattr(function, "__annotations__", None)
    if not annotations or "return" not in annotations:
        return Any
    code = getattr(function, "__code__", None)
    if code is None:
        return Any
    annotation = annotations["return"]
    if isinstance(annotation, type):
        return annotation
    function = original_of(function)
    code = getattr(function, "__code__", code)
    # The code object alone is not a key: closures of one function share their code and may differ in their annotation.
    # Annotations that are texts are resolved among the globals.
    key = (annotation, code, id(getattr(function, "__globals__", None)))
    try:
        found = _known[key]
    except (KeyError, TypeError):  # new, or not hashable
        found = _OWN if _names_closure(annotation, code.co_freevars) else _resolved(function)
        _remember(key, found)
    return _resolved(function) if found is _OWN else found


def _resolved(function: Callable[..., Any]) -> Any:
    names = inspect.getclosurevars(function).nonlocals if inspect.isroutine(function) else {}
    return signature_of(function, local_names=names).result_annotation


def _names_closure(annotation: Any, names: tuple[str, ...]) -> bool:
    return isinstance(annotation, str) and not set(re.findall(r"\w+", annotation)).isdisjoint(names)


def _remember(key: Hashable, found: Any) -> None:
    if len(_known) >= CACHED_FUNCTIONS:
        _known.clear()
    with contextlib.suppress(TypeError):
        _known[key] = found
