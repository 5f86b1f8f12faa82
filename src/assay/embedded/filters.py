"""Parses the filters of a list of runs, with the cursor of an earlier page."""

from collections.abc import Mapping
from typing import Any

from assay.engine import filters as engine_filters
from assay.storage.ports import RunFilter
from assay.wire.render import parse_cursor


def run_filter(namespace: str, filters: Mapping[str, Any]) -> RunFilter:
    """Return the filter that `filters` describe; `cursor` is the text that an earlier page returned."""
    cursor = filters.get("cursor")
    seen = None if cursor is None else parse_cursor(str(cursor))
    return engine_filters.run_filter(namespace, {**filters, "cursor": seen})
