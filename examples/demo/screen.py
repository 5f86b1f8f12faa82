"""What the demo shows: aligned lines, in colour on a terminal and plain text elsewhere."""

import os
import sys
import time
from typing import TextIO

COLOURS = {"grey": "\x1b[2m", "green": "\x1b[32m", "red": "\x1b[31m", "yellow": "\x1b[33m", "bold": "\x1b[1m"}
PLAIN = "\x1b[0m"


class Screen:
    """Prints one line per fact, with the seconds since the order began."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._coloured = self._stream.isatty() and "NO_COLOR" not in os.environ
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        self._began = time.monotonic()
        self._write(f"\n{self._in('bold', text)}\n")

    def text(self, text: str) -> None:
        self._write(f"{text}\n")

    def fact(self, process: int, what: str, detail: str, colour: str) -> None:
        seconds = f"{time.monotonic() - self._began:5.1f} s"
        who = f"process {process:<8}"
        self._write(f"  {self._in('grey', f'{seconds}  {who}')}{what:<18}{self._in(colour, detail)}\n")

    def _in(self, colour: str, text: str) -> str:
        return f"{COLOURS[colour]}{text}{PLAIN}" if self._coloured else text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
