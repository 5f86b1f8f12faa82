"""Numbered forward migrations: the known and the missing ones, and whether this program may use a database (I26).

The header of a file gives with `min_reader` and `min_writer` the oldest program that can work with the new schema. Each
applied migration is recorded with a checksum, to detect files that were changed afterwards.
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
    """A numbered change of the schema."""

    version: int
    min_reader: int
    min_writer: int
    script: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of the script."""
        return hashlib.sha256(self.script.encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    """A migration that was applied to a database."""

    version: int
    min_reader: int
    min_writer: int
    checksum: str


@cache
def known() -> tuple[Migration, ...]:
    """Return the migrations of this program, in order."""
    folder = resources.files("assay.storage.sql").joinpath("migrations")
    found = ((_FILE.fullmatch(file.name), file) for file in folder.iterdir())
    read = [migration(int(name[1]), file.read_text(encoding="utf-8")) for name, file in found if name is not None]
    return tuple(sorted(read, key=lambda step: step.version))


def migration(version: int, script: str) -> Migration:
    """Return a migration from its number and its text."""
    header = {name: int(value) for name, value in _HEADER.findall(script)}
    return Migration(version, header["min_reader"], header["min_writer"], script)


def missing(recorded: Iterable[Sequence[Any]], steps: Sequence[Migration]) -> Sequence[Migration]:
    """Return the migrations that a database still needs.

    Raises:
        Unavailable: The schema requires a newer program, or was made by a migration with another text.
    """
    applied = {row[0]: Applied(*row) for row in recorded}
    own = {step.version: step for step in steps}
    newest = max(own, default=0)
    for version, step in applied.items():
        if version > newest and max(step.min_reader, step.min_writer) > newest:
            raise Unavailable(
                f"the database has schema {version}, which needs a program for schema {step.min_writer};"
                f" this program is for schema {newest}: use a newer version of assay",
                code="schema_too_new",
            )
        if version in own and step.checksum != own[version].checksum:
            raise Unavailable(
                f"schema {version} of the database was made by a migration that differs from this program's:"
                " it comes from an unreleased or changed version of assay",
                code="schema_differs",
            )
    return [step for step in steps if step.version not in applied]


def newest_known() -> int:
    """Return the number of this program's newest schema."""
    return known()[-1].version


def too_new(min_writer: int) -> str:
    """Return the error text for an engine that must no longer write to a migrated database."""
    return (
        f"the database was migrated while this engine ran, and needs a program for schema {min_writer};"
        f" this program is for schema {newest_known()} and must stop: use a newer version of assay"
    )


def refuse_unmigrated(steps: Sequence[Migration]) -> None:
    """Raise `Unavailable` if migrations are missing; for a program that is configured not to migrate."""
    if steps:
        text = f"the database lacks schema {steps[-1].version}: run `assay migrate`, or start without --no-migrate"
        raise Unavailable(text, code="schema_too_old")
