"""Lists of runs, read page by page.

The last page has no cursor. A page may be shorter than its limit and still be followed by another page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from assay.sdk.client.records import WorkflowRecord


class Page(list[WorkflowRecord]):
    """A page of runs, as a list; `next_cursor` is where the next page begins, None after the last page.

    Args:
        records: The runs.
        next_cursor: The cursor of the next page.
    """

    __slots__ = ("next_cursor",)

    def __init__(self, records: Iterable[WorkflowRecord] = (), next_cursor: str | None = None) -> None:
        super().__init__(records)
        self.next_cursor = next_cursor


class RunList:
    """The runs that match some filters, newest first.

    Attributes:
        filters: The filters of the call; `limit` is the size of a page.
    """

    def __init__(self, filters: Mapping[str, Any]) -> None:
        self.filters = dict(filters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.filters.items())})"


class AsyncRunList(RunList):
    """A run list of `Client.list`: `async for` reads all pages, `await` the first page.

    Args:
        filters: The filters of the call.
        read: Reads the page at a cursor.
    """

    def __init__(self, filters: Mapping[str, Any], read: Callable[[str | None], Awaitable[Page]]) -> None:
        super().__init__(filters)
        self._read = read

    async def page(self, cursor: str | None = None) -> Page:
        """Read one page.

        Args:
            cursor: The `next_cursor` of the previous page; the first page unless given.

        Returns:
            The page, with the cursor of the next page.
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
    """A run list of `workflow.list`: a sequence of all runs, read on first use.

    Args:
        filters: The filters of the call.
        read: Reads the page at a cursor.
    """

    def __init__(self, filters: Mapping[str, Any], read: Callable[[str | None], Page]) -> None:
        super().__init__(filters)
        self._read = read
        self._all: list[WorkflowRecord] | None = None

    def page(self, cursor: str | None = None) -> Page:
        """Read one page.

        Args:
            cursor: The `next_cursor` of the previous page; the first page unless given.

        Returns:
            The page, with the cursor of the next page.
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
        """Return all runs; kept, so that `len` and indexes refer to the same read."""
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
