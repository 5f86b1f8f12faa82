"""Random courses of random programs, each compared with replays from every point of its history."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.events import Recorded
from assay.core.model.limits import LIMITS
from assay.core.model.replies import Advanced
from assay.sdk.workflow.replay.completion import Completion
from tests.sdk.support import Trial, inputs_of, replayed, replayed_commands, telling
from tests.sdk.workflow.replay.programs import Program, app

MOVES = 40
DEFECTS = {"AssertionError", "InvalidStateError", "AttributeError", "KeyError", "RuntimeError", "TypeError"}


class Troubled(Trial):
    """A trial in which things happen at any moment: between a turn and its answer, in a pause, while nobody looks."""

    def __init__(self, program: Program, chance: random.Random) -> None:
        self.chance = chance
        self.marks: list[tuple[int, int, int]] = []
        self.cancelled = False
        self.troubled = False
        self.part_commands = chance.choice((1, 2, 3, LIMITS.commands))
        super().__init__(app(), program)

    def _advance(self, turn: Completion, outcomes: tuple[Any, ...], seen: int, busy: bool, more: bool) -> Advanced:
        if self.troubled and self.chance.random() < 0.3:
            self._outside()
        return super()._advance(turn, outcomes, seen, busy, more)

    def dies_between_parts(self) -> bool:
        self._mark()
        return self.troubled and self.chance.random() < 0.3

    def send(self, turn: Completion, outcomes: Any = (), seen: int | None = None) -> bool:
        assert turn.failure is None, turn.failure
        assert turn.deadlock is None, turn.deadlock
        self._mark()
        if turn.paused and self.troubled and self.chance.random() < 0.5:
            held, self._held = self._held, True  # it is accepted, and then the worker dies
            super().send(turn, outcomes, seen)
            self._held = held
            self._mark()
            self.crash()
            return False
        accepted = super().send(turn, outcomes, seen)
        self._mark()
        return accepted

    def _mark(self) -> None:
        """A point from which somebody else could take over: what is recorded, seen, and accepted by now."""
        self.marks.append((self.run.last_seq, self.run.seen_seq, len(accepted_once(telling(self.commands)))))

    def _outside(self) -> None:
        """Something happens that this worker has no part in."""
        held, self._held = self._held, True
        moves = self._moves_outside()
        self.chance.choice(moves)()
        self._held = held
        self._mark()

    def _moves_outside(self) -> list[Callable[[], object]]:
        moves: list[Callable[[], object]] = [
            lambda: self.signal("paid", self.chance.randint(0, 9)),
            lambda: self.signal("sent"),
        ]
        if self.chance.random() < 0.7:
            moves.pop()
        for seq, activity in self.run.activities.items():
            moves += [lambda seq=seq: self.complete(seq, "done")] * 3
            moves.append(lambda seq=seq: self.fail(seq))
            if activity.cancel_requested:
                moves.append(lambda seq=seq: self.withdraw(seq))
        moves += [lambda seq=seq: self.fire(seq) for seq in self.run.timers] * 2
        for child in [known.workflow_id for known in self.run.children.values()]:
            moves.append(lambda child=child: self.child(child, cmd.CompleteWorkflow()))
            moves.append(lambda child=child: self.child(child, cmd.FailWorkflow("no")))
        if not self.cancelled and self.chance.random() < 0.2:
            moves.append(self._cancel)
        return moves

    def _cancel(self) -> None:
        self.cancelled = True
        self.cancel("enough")

    def _moves_here(self) -> list[Callable[[], object]]:
        """What a worker does that has the coroutine."""
        moves: list[Callable[[], object]] = [self.lose, self.crash]
        if self.execution is None:
            return moves
        moves += [lambda seq=seq: self.step(seq) for seq in self.running if self.execution.futures.wants_step(seq)]
        moves += [
            lambda seq=seq: self.step(seq, ValueError("no"), attempt=3, retry_in=self.chance.choice([None, 30.0]))
            for seq in self.running
            if self.execution.futures.wants_step(seq)
        ]
        moves += [lambda seq=seq: self.did(seq, "done here") for seq in self.run.activities] * 5
        return moves

    def move(self) -> None:
        """One random thing happens."""
        self.troubled = True
        if self.chance.random() < 0.2:
            with self.together():
                for _ in range(self.chance.randint(1, 4)):
                    self._outside()
        elif self.chance.random() < 0.4:
            self._outside()
            self.work()
        else:
            self.chance.choice(self._moves_here())()
            if self.run.task.worker is not None and self.execution is None:
                self.lose()
        self._mark()


def accepted_once(commands: list[cmd.AnyCommand]) -> list[cmd.AnyCommand]:
    """Leave out repeated cancels.

    A cancel of work that had ended leaves no echo: a worker that repeats the turn after its first part sends it again.
    """
    return [
        command
        for place, command in enumerate(commands)
        if not (isinstance(command, cmd.RequestCancelActivity | cmd.CancelTimer) and command in commands[:place])
    ]


def check_every_point(trial: Troubled) -> None:
    """Whoever takes over, wherever, sends exactly what was not accepted before."""
    for last, seen, accepted in dict.fromkeys(trial.marks):
        history = trial.history[:last]
        if history[-1].event.closes is not None:
            continue
        ordered = replayed_commands(trial.key, trial.app, [inputs_of(history)])
        turn = replayed(trial.key, trial.app, history, seen)
        assert turn.failure is None, (last, seen, turn.failure)
        assert accepted_once([*ordered[:accepted], *telling(turn.commands)]) == ordered, (last, seen)


def check(program: Program, chance: random.Random, note: Callable[[str], object] = str) -> Troubled:
    """One program, one random course of events."""
    trial = Troubled(program, chance)
    for _ in range(MOVES):
        if trial.run.closed:
            break
        trial.move()
    note(str([type(recorded.event).__name__ for recorded in trial.history]))
    inputs = inputs_of(trial.history)
    done = accepted_once(telling(trial.commands))
    for batches in ([inputs], [[one] for one in inputs], _cut(inputs, chance)):
        assert replayed_commands(trial.key, trial.app, batches)[: len(done)] == done
    check_every_point(trial)
    if isinstance(trial.closing, ev.WorkflowFailed) and trial.closing.failure is not None:
        # An operation of the program has found a wrong value.
        assert trial.failure.type not in DEFECTS, trial.failure.stack
    return trial


def _cut(inputs: list[Recorded], chance: random.Random) -> list[list[Recorded]]:
    cuts = sorted(chance.sample(range(1, len(inputs)), min(3, len(inputs) - 1)))
    return [inputs[start:end] for start, end in zip([0, *cuts], [*cuts, len(inputs)], strict=True)]
