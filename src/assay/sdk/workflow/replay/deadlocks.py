"""Finds runs whose code waits for nothing that can come, and the places where their tasks wait.

A run is deadlocked if all of its tasks wait, no operation of the run is pending, and no task waits for an input from
outside: a signal, a message, an event of another workflow. The turn is complete all the same; the report says so.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, Final

from assay.sdk.values.failures import OWN_FILES
from assay.sdk.workflow.replay.blocking import frame_of
from assay.sdk.workflow.replay.cancellation import TaskBody

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.runtime import Execution

SHOWN_PLACES: Final = 5
_ASYNCIO_FILES: Final = str(Path(asyncio.__file__).resolve().parent) + "/"


def found(run: "Execution") -> str | None:
    """Return the reason why the code of a run cannot go on, or None if an input can come; called between turns."""
    if run.futures.pending or run.loop.has_timers or run.mailbox.is_awaited:
        return None
    if run.speculation.paused_at is not None or run.futures.wants_any_step():
        return None
    if any(source.is_awaited for source in run.futures.sources):
        return None
    if run.peers is not None and run.peers.can_fail:
        return None
    return _sentence(run)


def _sentence(run: "Execution") -> str:
    tasks = run.loop.unfinished()
    places = [f"{'the workflow' if task is run.main else task.get_name()} at {_place(task)}" for task in tasks]
    if len(places) > SHOWN_PLACES:
        places[SHOWN_PLACES:] = [f"{len(places) - SHOWN_PLACES} more"]
    return f"the code waits for nothing that can come: {', '.join(places)}"


def _place(task: "asyncio.Task[Any]") -> str:
    """Return the line of the user's code where a task waits, or the name of a task without code of the user."""
    place = ""
    for frame in _frames(task):
        code = frame.f_code
        place = place or code.co_qualname
        if not code.co_filename.startswith((OWN_FILES, _ASYNCIO_FILES)):
            place = f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
    return place


def _frames(task: "asyncio.Task[Any]") -> Iterator[FrameType]:
    """Yield the frames of a waiting task, the outermost first."""
    body: Any = task.get_coro()
    awaited: Any = body.coroutine if isinstance(body, TaskBody) else body
    while isinstance(awaited, CoroutineType) and awaited.cr_frame is not None:
        yield awaited.cr_frame
        yield from frame_of(awaited)
        awaited = awaited.cr_await
