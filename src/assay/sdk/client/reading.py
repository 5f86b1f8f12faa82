"""The read calls of a client; none of them changes the engine's state."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, Unpack

from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace
from assay.core.model.limits import LARGEST_RUNS_PAGE
from assay.core.model.options import check_id
from assay.core.model.payload import value_of
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_flag, check_mapping, check_whole, optional_id, unknown_option
from assay.sdk.client.records import EventRecord, QueryRecord, StateRecord, WaitingRecord, WorkflowRecord
from assay.sdk.client.run_lists import AsyncRunList, Page
from assay.sdk.ports import EngineConnection
from assay.sdk.values.converter import Converter
from assay.sdk.values.search_values import filter_values

Runs = list[WorkflowRecord]
Events = list[EventRecord]


class ListFilters(TypedDict, total=False):
    """Filters of `list`; `search_attributes` is an alias of `search_attrs`, `workflow_type` of `type`.

    `status` is a status, `open` or `closed`; `stuck=True` selects runs whose task fails until fixed code is deployed.
    `change_version` selects runs that recorded a version of a change: `payment-v2`, or `payment-v2:2`. Times are
    seconds since the epoch, or datetimes with a time zone.
    """

    namespace: str | None
    status: str | None
    stuck: bool | None
    type: str | None
    workflow_type: str | None
    queue: str | None
    parent_id: str | None
    created_after: float | datetime.datetime | None
    created_before: float | datetime.datetime | None
    search_attrs: Mapping[str, Any] | None
    search_attributes: Mapping[str, Any] | None
    change_version: str | None
    text: str | None
    cursor: str | None
    limit: int | None
    offset: int | None


class Reading:
    """The read calls of `Client`, in terms of its transport."""

    transport: EngineConnection
    namespace: str

    async def describe(
        self, workflow_id: str, run_id: str | None = None, *, namespace: str | None = None
    ) -> WorkflowRecord | None:
        """Return the record of a run.

        Args:
            workflow_id: The workflow id.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            The record, or None if the run does not exist.
        """
        name, run = check_id(workflow_id, "workflow_id"), optional_id(run_id, "run_id")
        record = await self.transport.describe(self._space(namespace), name, run)
        return None if record is None else WorkflowRecord(record)

    async def explain(
        self, workflow_id: str, run_id: str | None = None, *, namespace: str | None = None
    ) -> WaitingRecord:
        """Return what a run waits for, as data and as sentences.

        Args:
            workflow_id: The workflow id.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            A record whose `waiting_on` has the `summary` and all `waits`; None in it for a closed run.

        Raises:
            NotFound: The id is unknown.
        """
        name, run = check_id(workflow_id, "workflow_id"), optional_id(run_id, "run_id")
        return WaitingRecord(await self.transport.explain(self._space(namespace), name, run))

    async def get_state(
        self, workflow_id: str, name: str | None = None, *, namespace: str | None = None
    ) -> StateRecord | QueryRecord | None:
        """Return the latest answers of a run's queries.

        Args:
            workflow_id: The workflow id.
            name: A query; all queries unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            A record with the `state` of all queries or the `value` of the named query; None if no answer is recorded.
        """
        record = await self._state(namespace, workflow_id, optional_id(name, "query name"))
        if record is None:
            return None
        return StateRecord(record) if name is None else QueryRecord(record)

    async def _state(self, namespace: str | None, workflow_id: str, name: str | None) -> dict[str, Any] | None:
        return await self.transport.state(self._space(namespace), check_id(workflow_id, "workflow_id"), name)

    async def query(self, workflow_id: str, name: str, *, namespace: str | None = None) -> Any:
        """Return the latest answer of one query.

        Args:
            workflow_id: The workflow id.
            name: The query's name.
            namespace: The namespace of the id, unless the client's.

        Returns:
            The value that the query function returned.

        Raises:
            NotFound: The run has no such query, or has not run yet.
        """
        record = await self._state(namespace, workflow_id, check_id(name, "query name"))
        if record is None:
            raise NotFound(f"query '{name}' for workflow {workflow_id} not found")
        return record["value"]

    async def get_events(self, workflow_id: str, run_id: str | None = None, *, namespace: str | None = None) -> Events:
        """Return the history of a run.

        Args:
            workflow_id: The workflow id.
            run_id: A run of the id; the current run unless given.
            namespace: The namespace of the id, unless the client's.

        Returns:
            The events, in order.

        Raises:
            NotFound: The id is unknown.
        """
        name, run = check_id(workflow_id, "workflow_id"), optional_id(run_id, "run_id")
        return [EventRecord(event) for event in await self.transport.events(self._space(namespace), name, run)]

    async def list_children(self, workflow_id: str, *, namespace: str | None = None) -> Runs:
        """Return the child workflows of a workflow.

        Args:
            workflow_id: The workflow id of the parent.
            namespace: The namespace of the id, unless the client's.

        Returns:
            Records of the children, oldest first.

        Raises:
            NotFound: The id is unknown.
        """
        space, workflow_id = self._space(namespace), check_id(workflow_id, "workflow_id")
        if await self.transport.describe(space, workflow_id) is None:
            raise NotFound(f"workflow {workflow_id} not found")
        return await self._all(space, {"parent_id": workflow_id})

    async def list_runs(self, workflow_id: str, *, namespace: str | None = None) -> Runs:
        """Return all runs of a workflow id.

        Args:
            workflow_id: The workflow id.
            namespace: The namespace of the id, unless the client's.

        Returns:
            Records of the runs, oldest first.

        Raises:
            NotFound: The id is unknown.
        """
        runs = await self._all(self._space(namespace), {"workflow_id": check_id(workflow_id, "workflow_id")})
        if not runs:
            raise NotFound(f"workflow {workflow_id} not found")
        return runs

    def list(self, **filters: Unpack[ListFilters]) -> AsyncRunList:
        """Return the runs that match, newest first: `async for` reads all of them, `await` returns the first page.

        Args:
            **filters: See `ListFilters`; `limit` is the size of a page, 50 unless given.

        Returns:
            A lazy list; `await runs.page(cursor)` reads one page.

        Raises:
            TypeError: A filter of this name does not exist.
            Invalid: A filter has an impossible value.
        """
        given = {_FILTER_ALIASES.get(name, name): value for name, value in filters.items() if value is not None}
        for name in given:
            if name not in _FILTERS:
                raise unknown_option("list has no filter", name, _FILTERS)
        wanted = {name: _FILTERS[name](value, name) for name, value in given.items()}
        space = self._space(wanted.pop("namespace", None))

        async def read(cursor: str | None) -> Page:
            return await self._page(space, wanted if cursor is None else {**wanted, "cursor": cursor})

        return AsyncRunList(given, read)

    async def _page(self, namespace: Namespace, filters: Mapping[str, Any]) -> Page:
        found = await self.transport.list(namespace, filters)
        return Page(map(WorkflowRecord, found), found.next_cursor)

    async def _all(self, namespace: Namespace, filters: Mapping[str, Any]) -> Runs:
        """Return every matching run, oldest first."""
        page = await self._page(namespace, filters)
        found = Runs(page)
        while page.next_cursor is not None:
            page = await self._page(namespace, {**filters, "cursor": page.next_cursor})
            found.extend(page)
        return found[::-1]

    def _space(self, namespace: str | None) -> Namespace:
        return Namespace(self.namespace if namespace is None else check_id(namespace, "namespace"))


def epoch(value: Any) -> Any:
    """Convert a datetime to seconds since the epoch; return any other value unchanged."""
    if not isinstance(value, datetime.datetime):
        return value
    if value.tzinfo is None:
        raise Invalid("a datetime needs a time zone, such as datetime.UTC", code="naive_datetime")
    return value.timestamp()


def _moment(value: object, name: str) -> float:
    found = epoch(value)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise Invalid(f"{name} must be a time in seconds since the epoch, or a datetime", field=name)
    return found


def _attributes(value: object, name: str) -> Any:
    return value_of(
        _converter.encode(filter_values(check_mapping(value, name), name), name=name)
    )  # the same for every engine


_converter: Final = Converter()
_FILTER_ALIASES: Final = {"search_attributes": "search_attrs", "workflow_type": "type"}
_FILTERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "namespace": check_id,
    "status": check_words,
    "stuck": check_flag,
    "type": check_words,
    "queue": check_words,
    "parent_id": check_words,
    "created_after": _moment,
    "created_before": _moment,
    "search_attrs": _attributes,
    "change_version": check_words,
    "text": check_words,
    "cursor": check_words,
    "limit": lambda value, name: check_whole(value, name, range(1, LARGEST_RUNS_PAGE + 1)),
    "offset": lambda value, name: check_whole(value, name, range(2**62)),
}
