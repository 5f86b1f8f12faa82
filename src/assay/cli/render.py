"""Answers on standard output: lists, records and actions, each in four formats.

Programs get the columns and texts of the wire, with ISO times and without colour; people at a terminal get relative
times, colours, and lines that end with their terminal.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final, NamedTuple

import click

from assay.cli.command_errors import CommandError
from assay.cli.times import now, relative, timestamp

EMPTY_CELL: Final = "-"
MIN_LAST_COLUMN_CHARACTERS: Final = 20
"""Letters that the last column keeps on a terminal, however wide the others are."""
ELLIPSIS: Final = "…"
COLORS: Final = {
    "COMPLETED": {"fg": "green"},
    "FAILED": {"fg": "red"},
    "TIMED_OUT": {"fg": "red"},
    "CANCELLED": {"fg": "yellow"},
    "RUNNING": {"fg": "cyan"},
    "PENDING": {"dim": True},
    "STUCK": {"fg": "magenta", "bold": True},
    "lost": {"fg": "red"},
    "unhealthy": {"fg": "red"},
}

Record = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a table: its title, and the field or the function of a record that it shows."""

    title: str
    field: str
    is_time: bool = False
    value: Callable[[Record], Any] | None = None
    on_terminal: Callable[[Record], Any] | None = None
    """Shown to people in place of the value."""
    zone: tzinfo | None = None
    """Times of this zone, also on a terminal, where the distance stands beside them."""


class Printer:
    """Writes answers in one format."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.terminal = sys.stdout.isatty()

    @property
    def for_people(self) -> bool:
        """Return True for a table on a terminal."""
        return self.terminal and self.output == "table"

    def list(self, records: Sequence[Record], columns: Sequence[Column]) -> None:
        """Write several records: rows, one array, one object per line, or a sequence."""
        match self.output:
            case "table":
                self._write_safe("".join(f"{line}\n" for line in self._table(records, columns)))
            case "jsonl":
                self._write("".join(f"{compact(record)}\n" for record in records))
            case _:
                self._document(records)

    def screen(self, records: Sequence[Record], columns: Sequence[Column], title: str) -> None:
        """Write a list over what the terminal shows."""
        lines = [line_of(title), *self._table(records, columns)]
        height = max(shutil.get_terminal_size().lines - 1, 5)
        self._write_safe("\x1b[H\x1b[2J" + "\n".join(lines[:height]) + "\n")

    def page(self, lines: Iterable[str]) -> None:
        """Write lines that are safe for a terminal already."""
        self._write_safe("".join(f"{line}\n" for line in lines))

    def record(self, record: object) -> None:
        """Write one record; a table of one would say less than its JSON."""
        if self.output == "jsonl":
            self._write(f"{compact(record)}\n")
        else:
            self._document(record)

    def action(self, sentence: str) -> None:
        """Write what was done."""
        done = {"message": sentence, "ok": True}
        match self.output:
            case "table":
                self._write(f"{line_of(sentence)}\n")
            case "json":
                self._write(f"{json.dumps(done, ensure_ascii=False)}\n")
            case _:
                self.record(done)

    def event(self, event: Record, columns: Sequence[Column]) -> None:
        """Write one event of a history that is followed, at once; `columns` are those of a list of events."""
        if self.output != "table":
            self._write(f"{compact(event)}\n")
            return
        seq, kind, time, name, detail = (_cell(event, column, None) for column in columns)
        line = f"{seq:>4}  {kind:<30}  {time}  {name:<16}  {detail}"
        self._write_safe(f"{_cut(line, self._width()) if self.terminal else line}\n")

    def sentence(self, text: str) -> None:
        """Write a line for people: on a terminal, and nowhere else."""
        if self.terminal:
            self._write(f"{line_of(text)}\n")

    def styled(self, text: str, word: str | None = None) -> str:
        """Return `text` in the colour of `word`, which is the text itself unless given, where colours may be."""
        style = COLORS.get(word or text)
        return click.style(text, **style) if style and self._colorful() else text  # type: ignore[arg-type]

    def heading(self, text: str) -> str:
        """Return `text` in bold type, where that may be."""
        return click.style(text, bold=True) if self._colorful() else text

    def _table(self, records: Sequence[Record], columns: Sequence[Column]) -> Iterable[str]:
        if not self.for_people:
            return table(records, columns)
        plain = list(table(records, columns, at=now(), width=self._width()))
        return [self.heading(plain[0]), *(self._in_color(line) for line in plain[1:])]

    def _in_color(self, line: str) -> str:
        """Return a row with the words that have a colour in it; a row has at most a few of them."""
        if not self._colorful():
            return line
        return "  ".join(self.styled(cell, cell.strip()) for cell in line.split("  "))

    def _colorful(self) -> bool:
        from assay.server.logs import colorful

        return self.for_people and colorful(sys.stdout)

    def _width(self) -> int:
        return shutil.get_terminal_size().columns

    def _document(self, document: object) -> None:
        if self.output == "yaml":
            self._write(_yaml(document))
        else:
            self._write(f"{json.dumps(document, indent=2, ensure_ascii=False)}\n")

    def _write(self, text: str) -> None:
        """Write text that may hold anything, with nothing in it that steers a terminal."""
        if self.terminal:
            text = "".join(f"{line_of(line)}\n" for line in text.split("\n")[:-1])
        self._write_safe(text)

    def _write_safe(self, text: str) -> None:
        try:
            click.echo(text, nl=False, color=self.terminal)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"the answer cannot be written: {error.strerror}") from None


def table(
    records: Sequence[Record], columns: Sequence[Column], *, at: float | None = None, width: int | None = None
) -> Iterable[str]:
    """Return a header and rows: left-aligned, two blanks between, the last column unpadded.

    With `at`, which is now, the table is for people: times are distances. Its lines are cut at `width`.
    """
    rows = [
        [column.title for column in columns],
        *([_cell(record, column, at) for column in columns] for record in records),
    ]
    widths = [max(len(row[number]) for row in rows) for number in range(len(columns) - 1)]
    left = None if width is None else max(width - sum(widths) - 2 * len(widths), MIN_LAST_COLUMN_CHARACTERS)
    for row in rows:
        padded = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
        yield "  ".join([*padded, row[-1] if left is None else _cut(row[-1], left)])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def _cell(record: Record, column: Column, at: float | None) -> str:
    shown = column.on_terminal if at is not None and column.on_terminal is not None else column.value
    value = record.get(column.field) if shown is None else shown(record)
    if value is None:
        return EMPTY_CELL
    if isinstance(value, str):
        return line_of(value)
    if column.is_time and isinstance(value, int | float):
        return _time(value, column, at)
    return compact(value)


def _time(seconds: float, column: Column, at: float | None) -> str:
    if column.zone is not None:
        text = timestamp(seconds, column.zone)
        return text if at is None else f"{text.replace('.000', '')}  ({relative(seconds, at)})"
    return timestamp(seconds) if at is None else relative(seconds, at)


def line_of(text: str) -> str:
    """Return `text` with control characters written out: it stays on its line."""
    if text.isprintable():
        return text
    from assay.server.logs import one_line

    return one_line(text)


def compact(document: object) -> str:
    """Return a document as JSON without blanks."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _yaml(document: object) -> str:
    import yaml  # only who asks for it pays for it

    text: str = yaml.dump(
        document,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1_000_000,
    )
    return text
