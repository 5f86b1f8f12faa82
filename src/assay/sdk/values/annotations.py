"""The return type of any callable, quickly: steps and side effects are often functions made anew on each turn."""

import contextlib
import inspect
import re
from collections.abc import Callable, Hashable
from typing import Any, Final

from assay.sdk.direct_calls import original_of
from assay.sdk.values.signatures import signature_of

CACHED_FUNCTIONS: Final = 10_000
_OWN: Final = object()
"""Stands for a type that each function made from the same code has to be asked for."""
_known: dict[Hashable, Any] = {}


def result_annotation(function: Callable[..., Any]) -> Any:
    """What `function` says it returns, or `Any`."""
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
    # The code alone would not do: all functions made by the calls of another one share it, and each may return
    # something of its own. Texts in an annotation are looked up among the globals.
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
