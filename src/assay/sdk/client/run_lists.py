"""Lists of runs: page by page, or all pages one after the other.

The end of a list is a page without a cursor. A page may be shorter than its limit and still be followed by another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from assay.sdk.client.records import WorkflowRecord


class Page(list[WorkflowRecord]):
    """A list of runs; `next_cursor` is where the next page begins, None after the last one."""

    __slots__ = ("next_cursor",)

    def __init__(self, records: Iterable[WorkflowRecord] = (), next_cursor: str | None = None) -> None:
        super().__init__(records)
        self.next_cursor = next_cursor


class RunList:
    """The runs that match some filters, newest first; `limit` is the size of a page."""

    def __init__(self, filters: Mapping[str, Any]) -> None:
        self.filters = dict(filters)
        """The filters that were given."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.filters.items())})"


class AsyncRunList(RunList):
    """Runs as `Client.list` gives them: `async for` reads all pages, `await` the first one."""

    def __init__(self, filters: Mapping[str, Any], read: Callable[[str | None], Awaitable[Page]]) -> None:
        super().__init__(filters)
        self._read = read

    async def page(self, cursor: str | None = None) -> Page:
        """Return the page that begins at `cursor`, the first one without it.

        Args:
            cursor: The `next_cursor` of the page before.

        Returns:
            The page, with the cursor of the next one.
        """
        return await self._read(cursor)

    def __await__(self) -> Generator[Any, None, Page]:
        return self.page().__await__()

    async def __aiter__(self) -> AsyncIterator[WorkflowRecord]:
        page = await self.page()
        while True:
            for record in page:
                yield record
            if page.next_cursor is None:
                return
            page = await self.page(page.next_cursor)


class BlockingRunList(RunList, Sequence[WorkflowRecord]):
    """Runs as `workflow.list` gives them: a sequence of all runs, read when it is first used."""

    def __init__(self, filters: Mapping[str, Any], read: Callable[[str | None], Page]) -> None:
        super().__init__(filters)
        self._read = read
        self._all: list[WorkflowRecord] | None = None

    def page(self, cursor: str | None = None) -> Page:
        """Return the page that begins at `cursor`, the first one without it.

        Args:
            cursor: The `next_cursor` of the page before.

        Returns:
            The page, with the cursor of the next one.
        """
        return self._read(cursor)

    def __iter__(self) -> Iterator[WorkflowRecord]:
        if self._all is not None:
            yield from self._all
            return
        page = self.page()
        while True:
            yield from page
            if page.next_cursor is None:
                return
            page = self.page(page.next_cursor)

    def _everything(self) -> list[WorkflowRecord]:
        """Return all runs; kept, so that a length and the indexes below it belong together."""
        if self._all is None:
            self._all = list(iter(self))  # not `[*self]`, which begins with the length
        return self._all

    def __len__(self) -> int:
        return len(self._everything())

    def __bool__(self) -> bool:
        return bool(self.page() if self._all is None else self._all)

    @overload
    def __getitem__(self, index: SupportsIndex) -> WorkflowRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[WorkflowRecord]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return self._everything()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list | BlockingRunList):
            return NotImplemented
        return self._everything() == [*other]

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either
