"""The return type of any callable, quickly: steps and side effects are often lambdas made anew on each turn."""

import inspect
from collections.abc import Callable
from typing import Any

from assay.sdk.signatures import signature_of

_known: dict[object, Any] = {}


def result_annotation(function: Callable[..., Any]) -> Any:
    """What `function` says it returns, or `Any`."""
    annotations = getattr(function, "__annotations__", None)
    if not annotations or "return" not in annotations:
        return Any
    code = getattr(function, "__code__", None)
    if code is None:
        return Any
    if code not in _known:
        found = signature_of(function).result_annotation
        _known[code] = Any if found is inspect.Parameter.empty else found
    return _known[code]
