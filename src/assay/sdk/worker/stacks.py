"""Which handler a thread executes, and at which line: read from the frames of the thread while it runs."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

HANDLERS: Final[dict[CodeType, Callable[[Mapping[str, Any]], str]]] = {}
"""How to name the handler that runs below a function of the worker, from the local variables of that function."""

STACK_FRAMES: Final = 30
"""Frames of a stack that a log line shows, the innermost ones."""

_ASSAY_FOLDER: Final = str(Path(__file__).resolve().parents[2]) + os.sep
_FOREIGN_FOLDERS: Final = (_ASSAY_FOLDER, sysconfig.get_paths()["stdlib"] + os.sep, "<frozen")


class Place(NamedTuple):
    """A line of code that is being executed."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def frames_of(thread: int) -> Iterator[FrameType]:
    """Yield the frames of a thread, innermost first; nothing if the thread has ended."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


def place_of(thread: int) -> Place | None:
    """Return the innermost line of a thread that is a user's own, or the innermost line if none is."""
    innermost = None
    for frame in frames_of(thread):
        place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if not place.file.startswith(_FOREIGN_FOLDERS):
            return place
        innermost = innermost or place
    return innermost


def handler_of(thread: int) -> str | None:
    """Return the name of the handler that a thread executes, if the worker has called one there."""
    for frame in frames_of(thread):
        name = HANDLERS.get(frame.f_code)
        if name is not None:
            return name(frame.f_locals)
    return None


def stack_of(thread: int) -> str:
    """Return the stack of a thread as a text for a log line, outermost frame first."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "(the thread has ended)"
    return "".join(traceback.format_stack(frame)[-STACK_FRAMES:]).rstrip()
