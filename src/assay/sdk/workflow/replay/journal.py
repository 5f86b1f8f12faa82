"""The recorded commands of a history, with which the commands of replayed code are compared (I19).

Each command has an id, made of its kind and a counter of the run; its recorded event (echo) must have the same kind and
name. Echoes may be recorded after inputs that arrived during the task, so they are looked up by id and never by
position.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from assay.core.codec import UnknownEvent
from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError
from assay.core.model.events import Recorded

CommandId = tuple[str, int | str]

LENIENT = frozenset({"cancel of timer", "cancel of activity", "cancel of workflow"})
"""Kinds of commands without an echo if the engine has nothing left to cancel."""


ANY_NAME = "*"
UNSTARTED = ev.Event()
"""The echo of a child that could not be started."""


class Echo(NamedTuple):
    """A recorded command: its name, and its event."""

    name: str
    event: ev.Event


class MissingCommand(NamedTuple):
    """A recorded command that the code has not produced."""

    kind: str
    ident: int | str
    name: str

    def __str__(self) -> str:
        return shown_command(self.kind, self.ident, self.name)

    def error(self, found: str) -> NonDeterminismError:
        """Return the error for code that produced another command."""
        return diverged(self.kind, self.ident, str(self), found)


class Journal:
    """Echoes that the code has not produced yet, and sent commands whose echoes have not been read yet."""

    __slots__ = ("_counts", "_echoes", "_sent", "versions")

    def __init__(self) -> None:
        self._echoes: dict[CommandId, Echo] = {}
        self._sent: set[CommandId] = set()
        self._counts: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        """The versions of changes that this run has recorded; looked up over the whole history. A version that the code
        does not request is no divergence: a change that every run has made may leave the code."""

    def read(self, event: ev.Event) -> None:
        """Add an echo; an echo of a command that this execution sent is matched at once."""
        if isinstance(event, ev.VersionRecorded):
            self.versions[event.change_id] = event.version
            return
        kind, ident, name = self._identify(event)
        if (kind, ident) in self._sent:
            self._sent.discard((kind, ident))
        else:
            self._echoes[kind, ident] = Echo(name, event)

    def read_unstarted_child(self, seq: int) -> None:
        """Add a child that could not be started: its failure is the only record of the command."""
        if ("child workflow", seq) in self._sent:
            self._sent.discard(("child workflow", seq))
        else:
            self._echoes["child workflow", seq] = Echo(ANY_NAME, UNSTARTED)

    def _identify(self, event: ev.Event) -> tuple[str, int | str, str]:
        rule = ECHOES.get(type(event))
        if rule is None:
            name = event.name if isinstance(event, UnknownEvent) else event.recorded_name
            raise NonDeterminismError(f"the history has an event that this version does not know: {name}")
        kind, ident, name = rule(event)
        return (kind, self._count(kind), name) if ident is None else (kind, ident, name)

    def _count(self, kind: str) -> int:
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind]

    def match(self, kind: str, ident: int | str, name: str) -> ev.Event | None:
        """Return the echo of a command that the code produces, or None; raise for an echo with another name."""
        if not self._echoes:
            return None
        echo = self._echoes.pop((kind, ident), None)
        if echo is None:
            return None
        if echo.name not in (name, ANY_NAME):
            raise diverged(kind, ident, shown_command(kind, ident, echo.name), shown_command(kind, ident, name))
        return echo.event

    def unexpected(self, kind: str, ident: int | str, name: str) -> NonDeterminismError:
        """Return the error for a command that the code produces on a replay, and that the history lacks."""
        expected = next(
            (shown_command(*key, echo.name) for key, echo in self._echoes.items()), "nothing more at this point"
        )
        return diverged(kind, ident, expected, shown_command(kind, ident, name))

    def sent(self, kind: str, ident: int | str) -> None:
        """Note that a command is sent, so that its echo is expected."""
        self._sent.add((kind, ident))

    def settled(self) -> None:
        """Forget the sent commands: the history has been read to its end, so none of their echoes follows."""
        self._sent.clear()

    def has(self, kind: str, ident: int | str) -> bool:
        """Return True if the command is recorded, and not produced yet."""
        return (kind, ident) in self._echoes

    @property
    def empty(self) -> bool:
        """Return True if the code has produced every recorded command."""
        return not self._echoes

    def first_missing(self, history: Iterable[Recorded], steps: int) -> MissingCommand | None:
        """Return the first command of a history that the code has not produced; `steps` counts the steps of the code.

        Steps have no echo. Their outcomes are inputs, and the first outcome is recorded where the step was needed.
        """
        counts: Counter[str] = Counter()
        for recorded in history:
            event = recorded.event
            if isinstance(event, ev.StepCompleted | ev.StepFailed):
                if event.step_seq > steps:
                    return MissingCommand("step", event.step_seq, event.name)
            elif type(event) in ECHOES:
                kind, ident, name = ECHOES[type(event)](event)
                counts[kind] += 1
                if self.has(kind, counts[kind] if ident is None else ident):
                    return MissingCommand(kind, counts[kind] if ident is None else ident, name)
        return None


def diverged(kind: str, ident: int | str, expected: str, found: str) -> NonDeterminismError:
    """Return the error for code that disagrees with its history."""
    return NonDeterminismError(
        f"the code no longer follows its history at {kind} {ident}: the history says {expected}, the code did {found}",
        step=f"{kind} {ident}",
        expected=expected,
        found=found,
    )


def shown_command(kind: str, ident: int | str, name: str) -> str:
    """Return the name of a command in messages."""
    return f"{kind} {ident} '{name}'" if name else f"{kind} {ident}"


def other_child(workflow_id: str, known: str, ordered: str) -> NonDeterminismError:
    """Return the error for a child with the id of a child of another type, whose result it would receive."""
    kind = "child workflow"
    expected, found = (f"{kind} '{child_name(name, workflow_id)}'" for name in (known, ordered))
    return diverged(kind, f"'{workflow_id}'", expected, found)


def child_name(workflow_type: str, workflow_id: str) -> str:
    """Return the name of a child in comparisons."""
    return f"{workflow_type} {workflow_id}"


ECHOES: dict[type[ev.Event], Callable[[Any], tuple[str, int | str | None, str]]] = {
    ev.ActivityScheduled: lambda event: ("activity", event.activity_seq, event.name),
    ev.ActivityCancelRequested: lambda event: ("cancel of activity", event.activity_seq, ""),
    ev.TimerScheduled: lambda event: ("timer", event.timer_seq, ""),
    ev.TimerCancelled: lambda event: ("cancel of timer", event.timer_seq, ""),
    ev.WorkflowAwaitingSignal: lambda event: ("wait for signal", None, event.signal),
    ev.SideEffectRecorded: lambda event: ("side effect", event.side_effect_seq, event.name),
    ev.ChildWorkflowStarted: lambda event: (
        "child workflow",
        event.child_seq,
        child_name(event.workflow_type, event.child_workflow_id),
    ),
    ev.MessageSendRequested: lambda event: ("message", event.send_seq, f"{event.topic} to {event.to}"),
    ev.UpdateAccepted: lambda event: ("acceptance of update", event.update_id, "ack"),
    ev.UpdateRejected: lambda event: ("acceptance of update", event.update_id, "nak"),
    ev.UpdateCompleted: lambda event: (
        "answer to update",
        event.update_id,
        "ok" if event.failure is None else "error",
    ),
    ev.AttributesUpserted: lambda event: ("attributes", None, ""),
    ev.ExternalCancelRequested: lambda event: ("cancel of workflow", event.request_seq, event.to),
    ev.ExternalTerminateRequested: lambda event: ("termination of workflow", event.request_seq, event.to),
    ev.WatchAdded: lambda event: ("watch", event.watch_id, f"{event.mode} {event.pid}"),
    ev.WatchRemoved: lambda event: ("end of watch", None, ""),
    ev.OptionsSet: lambda event: ("options", None, ""),
}
"""The kind, id and name of each echo; an id of None for kinds whose commands are only counted."""
