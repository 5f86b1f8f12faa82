"""Lines for `assay dev` when a run starts or ends, read from the engine's event stream."""

import json
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from assay.cli.render import line_of
from assay.cli.tables import first_line
from assay.cli.times import duration_text

ENDS: Final = {
    "workflow_completed": ("completed", "green"),
    "workflow_failed": ("failed", "red"),
    "workflow_timed_out": ("timed out", "red"),
    "workflow_terminated": ("terminated", "red"),
    "workflow_cancelled": ("cancelled", "yellow"),
    "workflow_continued_as_new": ("continued as new", "green"),
}
STARTED: Final = "workflow_started"
REOPEN_SECONDS: Final = 1.0
STREAM_SILENCE_SECONDS: Final = 60.0
"""The engine sends a comment every few seconds; a stream that is silent for this time is opened again."""


def follow_runs(url: str, stopping: threading.Event) -> None:
    """Start a thread that prints lines about runs of the engine at `url`, until `stopping` is set."""
    threading.Thread(target=_follow, args=(url, stopping), name="assay-dev-runs", daemon=True).start()


def _follow(url: str, stopping: threading.Event) -> None:
    shown = RunLines()
    stream = f"{url}/api/v1/events/stream?kind={','.join((STARTED, *ENDS))}"
    while not stopping.is_set():
        try:
            with urllib.request.urlopen(stream, timeout=STREAM_SILENCE_SECONDS) as answer:  # noqa: S310  # our own engine
                for event in events_of(answer):
                    _show(*shown.line(event))
        except (OSError, ValueError):
            stopping.wait(REOPEN_SECONDS)


def events_of(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """Return the documents of a stream of server-sent events."""
    for line in lines:
        if line.startswith(b"data:"):
            yield json.loads(line.removeprefix(b"data:"))


class RunLines:
    """Lines about runs; remembers the start times of open runs."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def line(self, event: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the line of an event, and its colour or None."""
        name = line_of(f"{event.get('workflow_id')} ({event.get('workflow_type')})")
        run, time = str(event.get("run_id")), float(event.get("ts") or 0)
        if event.get("kind") == STARTED:
            self._began[run] = time
            return f"{name} started", None
        word, color = ENDS.get(str(event.get("kind")), (str(event.get("kind")), "white"))
        began = self._began.pop(run, None)
        after = "" if began is None else f" after {duration_text(time - began)}"
        facts = event.get("payload") or {}
        error = facts.get("error") or facts.get("reason")
        return f"{name} {word}{after}" + (f": {line_of(first_line(str(error)))}" if error else ""), color


def _show(text: str, color: str | None) -> None:
    from assay.server.logs import colorful

    click.echo(click.style(text, fg=color) if color and colorful(sys.stderr) else text, err=True)
