"""Planted bugs in versions of changes: a number that differs, is not kept, or is kept twice."""

from typing import Any

from assay.core.model import commands as cmd
from assay.core.model.effects import PutVersion
from assay.core.model.events import VersionRecorded
from assay.core.rules.workflow_tasks import COMMANDS
from assay.engine.commit.batch import GATHER
from assay.sdk.workflow.replay.commands import DEFAULT_VERSION, Commands
from assay.sdk.workflow.replay.journal import Journal
from simulation.mutants.planting import Mutant, Patch, does_nothing


def _newest_again() -> list[Patch]:
    """Replayed code has the newest version of the code that is deployed, not the recorded one."""
    version = Commands.version

    def newest(self: Commands, change_id: str, minimum: int, maximum: int) -> int:
        return maximum if self.replaying else version(self, change_id, minimum, maximum)

    return [(Commands, "version", newest)]


def _each_call_anew() -> list[Patch]:
    """Each call of a change gets the newest version."""
    version = Commands.version

    def anew(self: Commands, change_id: str, minimum: int, maximum: int) -> int:
        version(self, change_id, minimum, maximum)
        return maximum

    return [(Commands, "version", anew)]


def _unrecorded() -> list[Patch]:
    """A version is given and not recorded."""
    version = Commands.version

    def unrecorded(self: Commands, change_id: str, minimum: int, maximum: int) -> int:
        found = version(self, change_id, minimum, maximum)
        self._issued = [command for command in self._issued if not isinstance(command, cmd.RecordVersion)]
        return found

    return [(Commands, "version", unrecorded)]


def _recorded_again() -> list[Patch]:
    """Each call records its version, and the engine does not compare it with the recorded one."""
    version = Commands.version

    def again(self: Commands, change_id: str, minimum: int, maximum: int) -> int:
        found = version(self, change_id, minimum, maximum)
        if not self.replaying:
            self._issued.append(cmd.RecordVersion(change_id, maximum))
        return found

    return [(Commands, "version", again), (COMMANDS, cmd.RecordVersion, _records)]  # type: ignore[list-item]


def _records(decision: Any, command: cmd.RecordVersion, _: Any) -> None:
    decision.record(VersionRecorded(command.change_id, command.version))


def _default_recorded() -> list[Patch]:
    """New code gets the default version, and records it."""

    def default(self: Commands, change_id: str, _minimum: int, _maximum: int) -> int:
        if change_id not in self.journal.versions:
            self.journal.versions[change_id] = DEFAULT_VERSION
            self._issued.append(cmd.RecordVersion(change_id, DEFAULT_VERSION))
        return DEFAULT_VERSION

    return [(Commands, "version", default), (COMMANDS, cmd.RecordVersion, _records)]  # type: ignore[list-item]


def _unread() -> list[Patch]:
    """Versions in the history are not read."""
    read = Journal.read

    def skipping(self: Journal, event: Any) -> None:
        if not isinstance(event, VersionRecorded):
            read(self, event)

    return [(Journal, "read", skipping)]


def _unwritten() -> list[Patch]:
    """The table of versions is not written."""
    return [(GATHER, PutVersion, does_nothing)]  # type: ignore[list-item]


VERSIONED = {"kinds": ("version", "act", "all", "effect", "sleep"), "cached_runs": 1}
VERSIONS = (
    Mutant("a version is the newest one on replay", "versions", _newest_again, world=VERSIONED),
    Mutant("a version changes within a run", "versions", _each_call_anew, world=VERSIONED),
    Mutant("a version is not recorded", "versions, I2", _unrecorded, world=VERSIONED),
    Mutant("a version is recorded twice", "versions, I6", _recorded_again, world=VERSIONED),
    Mutant("the default version is recorded", "versions, I6", _default_recorded, world=VERSIONED),
    Mutant("recorded versions are not read", "versions", _unread, world=VERSIONED),
    Mutant("the table of versions is not written", "versions, I2", _unwritten, world=VERSIONED),
)
