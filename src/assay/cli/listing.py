"""Lists of runs: read page by page, filtered, and shown once or repeatedly."""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from assay.cli.command_errors import print_error
from assay.cli.session import CliSession
from assay.cli.tables import RUNS
from assay.cli.times import now
from assay.cli.waiting import repeated

LIST_PAGE_RUNS: Final = 1_000


def matching(
    session: CliSession, limit: int, offset: int | None, filters: dict[str, Any]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return up to `limit` runs, read page by page, and the number of runs that match."""
    query = _filters(**filters)
    found: list[dict[str, Any]] = []
    place: dict[str, Any] = {"offset": offset}
    while True:
        answer = session.engine.get("workflows", **query, **place, limit=min(limit - len(found), LIST_PAGE_RUNS))
        found += answer.document
        cursor = answer.headers.get("x-next-cursor")
        if cursor is None or len(found) >= limit or not answer.document:
            break
        place = {"cursor": cursor}
    return found, answer.headers.get("x-total-count")


def _filters(
    workflow_type: str | None, parent: str | None, search_attrs: Any, since: float | None, stuck: bool, **same: Any
) -> dict[str, Any]:
    attributes = None if search_attrs is None else json.dumps(search_attrs)
    began = None if since is None else now() - since
    wanted = {"type": workflow_type, "parent_id": parent, "search_attrs": attributes, "created_after": began}
    return {**wanted, "stuck": "true" if stuck else None, **same}


def keep_showing(session: CliSession, read: Callable[[], list[dict[str, Any]]]) -> None:
    """Show a list repeatedly: redraw it on a terminal; otherwise print it when it has changed."""
    shown: object = None
    for found in repeated(read):
        if session.printer.for_people:
            session.printer.screen(found, RUNS, f"{len(found)} runs in namespace {session.namespace}; Ctrl-C ends")
        elif found != shown:
            session.printer.list(found, RUNS)
            sys.stdout.flush()
        shown = found


def hint(session: CliSession, shown: int, total: str | None) -> None:
    """On a terminal, print how to see the rest of a list."""
    if session.printer.terminal and session.printer.output == "table" and total is not None and int(total) > shown:
        print_error(f"{shown} of {total}; see the next with --offset {shown}")


def all_pages(session: CliSession, *path: str, **query: Any) -> list[dict[str, Any]]:
    """Return all records of a list, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = session.engine.get("workflows", *path, **query)
        found += answer.document
        query["cursor"] = answer.headers.get("x-next-cursor")
        if query["cursor"] is None:
            return found
