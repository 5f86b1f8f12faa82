"""Numbered forward migrations: which are known, which are missing, and whether this program may use a database (I26).

A file says with `min_reader` and `min_writer` how old a program may be to work with the schema it makes (U1, U2). What
was applied is recorded with a checksum, so that a file that was changed afterwards is found out.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from assay.core.model.errors import Unavailable

VERSIONS_TABLE = """
CREATE TABLE IF NOT EXISTS schema_versions (
    version $int NOT NULL PRIMARY KEY,
    min_reader $int NOT NULL,
    min_writer $int NOT NULL,
    applied_at $int NOT NULL,
    checksum $text NOT NULL
) $table;"""

_FILE = re.compile(r"(\d{4})_[a-z_]+\.sql")
_HEADER = re.compile(r"^-- (min_reader|min_writer): (\d+)$", re.MULTILINE)


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    version: int
    min_reader: int
    min_writer: int
    script: str

    @property
    def checksum(self) -> str:
        """What tells this text from any other."""
        return hashlib.sha256(self.script.encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    """A step that a database has taken."""

    version: int
    min_reader: int
    min_writer: int
    checksum: str


@cache
def known() -> tuple[Migration, ...]:
    """The migrations that this program has, in order."""
    folder = resources.files("assay.storage.sql").joinpath("migrations")
    found = ((_FILE.fullmatch(file.name), file) for file in folder.iterdir())
    read = [migration(int(name[1]), file.read_text(encoding="utf-8")) for name, file in found if name is not None]
    return tuple(sorted(read, key=lambda step: step.version))


def migration(version: int, script: str) -> Migration:
    """A migration from its number and its text."""
    header = {name: int(value) for name, value in _HEADER.findall(script)}
    return Migration(version, header["min_reader"], header["min_writer"], script)


def missing(recorded: Iterable[Sequence[Any]], steps: Sequence[Migration]) -> Sequence[Migration]:
    """The steps that a database has yet to take; refused if it was made by a program too new, or by another text."""
    applied = {row[0]: Applied(*row) for row in recorded}
    own = {step.version: step for step in steps}
    newest = max(own, default=0)
    for version, step in applied.items():
        if version > newest and max(step.min_reader, step.min_writer) > newest:
            raise Unavailable(
                f"the database has schema {version}, which needs a program that knows schema {step.min_writer};"
                f" this one knows {newest}: use a newer version of assay",
                code="schema_too_new",
            )
        if version in own and step.checksum != own[version].checksum:
            raise Unavailable(
                f"schema {version} of the database was made by another text than this program has:"
                " it comes from an unreleased or changed version of assay",
                code="schema_differs",
            )
    return [step for step in steps if step.version not in applied]


def newest_known() -> int:
    """Return the newest schema that this program was made for."""
    return known()[-1].version


def too_new(min_writer: int) -> str:
    """Return the sentence for an engine that must not write to a database any more."""
    return (
        f"the database was migrated while this engine ran, and needs a program that knows schema {min_writer};"
        f" this one knows {newest_known()} and must stop: use a newer version of assay"
    )


def refuse_unmigrated(steps: Sequence[Migration]) -> None:
    """What is said when steps are missing and this program was told not to take them (R46)."""
    if steps:
        text = f"the database lacks schema {steps[-1].version}: run `assay migrate`, or start without --no-migrate"
        raise Unavailable(text, code="schema_too_old")
