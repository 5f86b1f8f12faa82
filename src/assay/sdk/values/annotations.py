"""Return annotations of callables, cached: steps and side effects often create their function anew on each replay."""

import contextlib
import inspect
import re
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, Final

from assay.sdk.direct_calls import original_of
from assay.sdk.values.signatures import signature_of

CACHED_FUNCTIONS: Final = 10_000
_OWN: Final = object()
"""Cached for an annotation that names a closure variable: resolved for each function, not once per code object."""
_known: dict[Hashable, tuple[Any, object, object]] = {}
"""Resolved annotations, with the code and the globals whose ids are in the key: both must live as long as the key."""
_of_modules: dict[Callable[..., Any], Any] = {}
"""Return annotations of functions at the top level of modules: one look-up, without reading any attribute."""


def result_annotation(function: Callable[..., Any]) -> Any:
    """Return the return annotation of `function`, or `Any`."""
    try:
        return _of_modules[function]
    except (KeyError, TypeError):  # new, made anew on each turn, or not hashable
        found = _annotation_of(function)
    # Not a closure: it holds variables of a run, and must not stay for the sake of this table.
    if isinstance(function, FunctionType) and function.__qualname__.isidentifier() and function.__closure__ is None:
        if len(_of_modules) >= CACHED_FUNCTIONS:
            _of_modules.clear()
        _of_modules[function] = found
    return found


def _annotation_of(function: Callable[..., Any]) -> Any:
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
    # Annotations that are texts are resolved among the globals. The key has the id of the code object, because its hash
    # is computed from all its constants and names, each time.
    names = getattr(function, "__globals__", None)
    key = (annotation, id(code), id(names))
    try:
        found = _known[key][0]
    except (KeyError, TypeError):  # new, or not hashable
        found = _OWN if _names_closure(annotation, code.co_freevars) else _resolved(function)
        _remember(key, (found, code, names))
    return _resolved(function) if found is _OWN else found


def _resolved(function: Callable[..., Any]) -> Any:
    names = inspect.getclosurevars(function).nonlocals if inspect.isroutine(function) else {}
    return signature_of(function, local_names=names).result_annotation


def _names_closure(annotation: Any, names: tuple[str, ...]) -> bool:
    return isinstance(annotation, str) and not set(re.findall(r"\w+", annotation)).isdisjoint(names)


def _remember(key: Hashable, found: tuple[Any, object, object]) -> None:
    if len(_known) >= CACHED_FUNCTIONS:
        _known.clear()
    with contextlib.suppress(TypeError):
        _known[key] = found
