"""The results of handlers and steps on their way into a history."""

from typing import Any

from assay.core.errors import Invalid
from assay.sdk.converter import Converter


def encode_result(converter: Converter, value: Any, name: str) -> bytes:
    """Return the JSON of a result; raise an `Invalid` that is not retried if the result cannot be recorded.

    The work is done when its result is found to be unfit, and another attempt would only do the work again.
    """
    try:
        return converter.encode(value, name=name)
    except Invalid as error:
        error.retryable = False
        raise
