"""The handler and the line that a thread executes, read from its frames while it runs."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

HANDLERS: Final[dict[CodeType, Callable[[Mapping[str, Any]], str]]] = {}
"""Functions of the worker that call handlers; each entry names the handler from the function's local variables."""

STACK_FRAMES: Final = 30
"""The number of innermost frames in a logged stack."""

_ASSAY_FOLDER: Final = str(Path(__file__).resolve().parents[2]) + os.sep
_FOREIGN_FOLDERS: Final = (_ASSAY_FOLDER, sysconfig.get_paths()["stdlib"] + os.sep, "<frozen")


class Place(NamedTuple):
    """A line of code that a thread executes."""

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
    """Return the innermost line of a thread in user code; the innermost line of all if none is."""
    innermost = None
    for frame in frames_of(thread):
        place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if not place.file.startswith(_FOREIGN_FOLDERS):
            return place
        innermost = innermost or place
    return innermost


def handler_of(thread: int) -> str | None:
    """Return the name of the handler that a thread executes, or None outside handlers."""
    for frame in frames_of(thread):
        name = HANDLERS.get(frame.f_code)
        if name is not None:
            return name(frame.f_locals)
    return None


def stack_of(thread: int) -> str:
    """Return the stack of a thread as text, outermost frame first."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "(the thread has ended)"
    return "".join(traceback.format_stack(frame)[-STACK_FRAMES:]).rstrip()
