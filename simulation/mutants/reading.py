"""Planted bugs of the reader of ready work: work that no worker serves hides other work."""

from collections.abc import Iterable
from typing import Any

from assay.engine.ready_reader import ReadyReader
from assay.storage.ports import Demand
from simulation.mutants.planting import Mutant, Patch


def _one_page_of_all_types() -> list[Patch]:
    """The oldest work is read whatever its type, a page of it, and never the work behind that page."""

    async def read_one_page(self: ReadyReader, lines: Iterable[Any]) -> None:
        for line in sorted({line._replace(kind=None) for line in lines}, key=str):
            found: tuple[list[Any], list[Any]] = ([], [])
            await self._read_page(line, Demand(line.namespace, line.queue, None, self._page), *found)
            self._dispatcher.load(*found)
        self._read.update(lines)

    return [(ReadyReader, "_read_lines", read_one_page)]


def _first_page_alone() -> list[Patch]:
    """A line counts as read after its first page."""
    read_page = ReadyReader._read_page

    async def read_and_end(self: ReadyReader, *arguments: Any) -> Any:
        await read_page(self, *arguments)
        return ()

    return [(ReadyReader, "_read_page", read_and_end)]


# A worker that is away leaves work waiting, and an engine that dies then finds that work in the store alone.
AWAY = {
    "local_workers": 0,
    "remote_workers": 1,
    "task_hands": 1,
    "programs": 8,
    "ready_page": 1,
    "kinds": ("sleep", "act"),
}
DEATHS = ("kill_engine", "kill_worker", "crash_after")
READING = (
    Mutant(
        "a page of unserved work hides the rest", "liveness", _one_page_of_all_types, False, DEATHS, 50,
        {**AWAY, "unserved": 12},
    ),
    Mutant("only the first page of a type is read", "liveness", _first_page_alone, False, DEATHS, 50, AWAY),
)  # fmt: skip
