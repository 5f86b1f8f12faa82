"""Output of commands: lists, records and actions, in four formats.

Files and pipes get the fields of the API with ISO times, without colours. A terminal gets relative times, colours, and
lines cut to its width.
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
"""The minimum width of the last column on a terminal."""
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
    """A column of a table: its title, and the field or function of a record for its cells."""

    title: str
    field: str
    is_time: bool = False
    value: Callable[[Record], Any] | None = None
    on_terminal: Callable[[Record], Any] | None = None
    """The value on a terminal, if it differs."""
    zone: tzinfo | None = None
    """Show times in this zone; a terminal shows the relative time, too."""


class Printer:
    """Writes the output of a command in a format."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.terminal = sys.stdout.isatty()

    @property
    def for_people(self) -> bool:
        """Return whether the output is a table on a terminal."""
        return self.terminal and self.output == "table"

    def list(self, records: Sequence[Record], columns: Sequence[Column]) -> None:
        """Write records: as rows, an array, an object per line, or a YAML sequence."""
        match self.output:
            case "table":
                self._write_safe("".join(f"{line}\n" for line in self._table(records, columns)))
            case "jsonl":
                self._write("".join(f"{compact(record)}\n" for record in records))
            case _:
                self._document(records)

    def screen(self, records: Sequence[Record], columns: Sequence[Column], title: str) -> None:
        """Clear the terminal and write a list."""
        lines = [line_of(title), *self._table(records, columns)]
        height = max(shutil.get_terminal_size().lines - 1, 5)
        self._write_safe("\x1b[H\x1b[2J" + "\n".join(lines[:height]) + "\n")

    def page(self, lines: Iterable[str]) -> None:
        """Write lines without control characters."""
        self._write_safe("".join(f"{line}\n" for line in lines))

    def record(self, record: object) -> None:
        """Write a record; the format `table` shows a single record as JSON, because it has too many fields."""
        if self.output == "jsonl":
            self._write(f"{compact(record)}\n")
        else:
            self._document(record)

    def action(self, sentence: str) -> None:
        """Write a sentence about a completed action."""
        done = {"message": sentence, "ok": True}
        match self.output:
            case "table":
                self._write(f"{line_of(sentence)}\n")
            case "json":
                self._write(f"{json.dumps(done, ensure_ascii=False)}\n")
            case _:
                self.record(done)

    def event(self, event: Record, columns: Sequence[Column]) -> None:
        """Write an event of a history that is followed; `columns` are the columns of event tables."""
        if self.output != "table":
            self._write(f"{compact(event)}\n")
            return
        seq, kind, time, name, detail = (_cell(event, column, None) for column in columns)
        line = f"{seq:>4}  {kind:<30}  {time}  {name:<16}  {detail}"
        self._write_safe(f"{_cut(line, self._width()) if self.terminal else line}\n")

    def sentence(self, text: str) -> None:
        """Write a line, on a terminal only."""
        if self.terminal:
            self._write(f"{line_of(text)}\n")

    def styled(self, text: str, word: str | None = None) -> str:
        """Return `text` in the colour of `word`, or of the text itself; without colour if colours are off."""
        style = COLORS.get(word or text)
        return click.style(text, **style) if style and self._colorful() else text  # type: ignore[arg-type]

    def heading(self, text: str) -> str:
        """Return `text` in bold type, if colours are on."""
        return click.style(text, bold=True) if self._colorful() else text

    def _table(self, records: Sequence[Record], columns: Sequence[Column]) -> Iterable[str]:
        if not self.for_people:
            return table(records, columns)
        plain = list(table(records, columns, at=now(), width=self._width()))
        return [self.heading(plain[0]), *(self._in_color(line) for line in plain[1:])]

    def _in_color(self, line: str) -> str:
        """Return a row with its cells in their colours."""
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
        """Write any text; on a terminal, escape control characters."""
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
    """Return header and rows: left-aligned, with two blanks between columns and no padding after the last.

    Args:
        records: The records.
        columns: The columns.
        at: The current time, for a terminal: times are shown relative to it.
        width: The width at which lines are cut.
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
    """Return `text` with control characters escaped, so that it stays on a single line."""
    if text.isprintable():
        return text
    from assay.server.logs import one_line

    return one_line(text)


def compact(document: object) -> str:
    """Return a document as JSON without blanks."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _yaml(document: object) -> str:
    import yaml  # imported for this format only: other formats start faster

    text: str = yaml.dump(
        document,
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=1_000_000,
    )
    return text
