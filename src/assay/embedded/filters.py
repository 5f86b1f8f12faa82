"""What callers say about a list, as the store understands it (R31)."""

from collections.abc import Mapping
from typing import Any

from assay.engine import filters as engine_filters
from assay.storage.ports import RunFilter
from assay.wire.render import parse_cursor


def run_filter(namespace: str, filters: Mapping[str, Any]) -> RunFilter:
    """The filter that `filters` describe, with a cursor that a list has given."""
    cursor = filters.get("cursor")
    seen = None if cursor is None else parse_cursor(str(cursor))
    return engine_filters.run_filter(namespace, {**filters, "cursor": seen})
