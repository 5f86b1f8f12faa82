"""The type rules of search attributes in Python: what a filter could not find is refused at the call."""

import datetime
import math
from collections.abc import Mapping
from typing import Any

from assay.core.model.errors import Invalid
from assay.sdk.arguments import check_mapping


def search_values(attributes: object, name: str = "search_attributes") -> dict[str, Any]:
    """Return search attributes as JSON values; None removes a key.

    A value is a text, a whole number, a fraction, a bool, a datetime with a time zone, or a list of texts.

    Raises:
        Invalid: A key is no text, or a value is of another type.
    """
    found: dict[str, Any] = {}
    for key, value in check_mapping(attributes, name).items():
        if not isinstance(key, str):
            raise Invalid(f"a key of {name} must be a text, not {type(key).__name__}", field=name)
        found[key] = _value(value, f"{name}.{key}")
    return found


def _value(value: object, path: str) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case datetime.datetime():
            return utc_text(value, path)
        case list() | tuple() if all(isinstance(entry, str) for entry in value):
            return list(value)
    kind = "a list with other values" if isinstance(value, list | tuple) else type(value).__name__
    allowed = "text, number, bool, datetime or list of texts"
    raise Invalid(f"{path} must be {allowed}, not {kind}", field=path)


def utc_text(moment: datetime.datetime, path: str) -> str:
    """Return a time as it is recorded: RFC 3339, in UTC."""
    if moment.tzinfo is None:
        raise Invalid(f"{path} must be a datetime with a time zone", field=path)
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def filter_values(attributes: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """Return the attributes of a filter with times as they are recorded; other values are unchanged."""
    return {
        key: utc_text(value, f"{name}.{key}") if isinstance(value, datetime.datetime) else value
        for key, value in attributes.items()
    }
