"""Random workflow programs and the model that predicts their results.

A program is data: a list of steps that one workflow function interprets. What it returns is a function of the program
alone, whatever faults happen on the way; where timing may decide, the model says which answers are possible.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from assay.sdk.worker.workflow_tasks import EARLY_REPORT_AFTER_TURNS

Step = dict[str, Any]
FAILED, SAME, TIMED_OUT, DROPPED = "failed", "same", "timed out", "dropped"
DEEPEST = 2


class PlannedBug(Exception):
    """What a `bug` step raises: no run fails with it, its task does, until the code is fixed."""


class OneOf:
    """A result that timing decides."""

    def __init__(self, *options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"OneOf{self.options}"


class Author:
    """Writes the programs of one seed."""

    def __init__(self, chance: random.Random, kinds: tuple[str, ...] = (), again: float = 0.2) -> None:
        self._chance = chance
        self._kinds = kinds or KINDS
        self._again = again
        self._count = 0

    def program(self, workflow_id: str, depth: int = 0) -> Step:
        """A program for a workflow id."""
        size = self._chance.randint(1, 5 if depth == 0 else 2)
        steps = [self._step(workflow_id, depth, 0) for _ in range(size)]
        if self._chance.random() < self._again:
            steps.insert(self._chance.randint(0, len(steps)), {"do": "again"})
        return {"id": workflow_id, "steps": steps, "cleanup": self._chance.random() < 0.5, "done": []}

    def stubborn(self, workflow_id: str) -> Step:
        """A program that fails as a whole, and is tried again from its beginning by its retry policy."""
        kinds = ("act", "sleep", "effect", "inline", "stamp", "limited")
        steps = [self._make(self._chance.choice(kinds), workflow_id, DEEPEST, 2) for _ in range(3)]
        steps.insert(self._chance.randint(0, 3), {"do": "break", "times": self._chance.choice((1, 2))})
        return {"id": workflow_id, "steps": steps, "done": [], "retry": True}

    def single(self, kind: str, workflow_id: str) -> Step:
        """A small program about one kind of step."""
        step = self._make(kind, workflow_id, DEEPEST - 1, 1)
        after = [{"do": "again"}] if kind == "act" else []
        return {"id": workflow_id, "steps": [step, *after, self._make("act", workflow_id, 2, 2)], "done": []}

    def _step(self, workflow_id: str, depth: int, nesting: int) -> Step:
        deep, nested = depth >= DEEPEST, nesting >= 2
        kinds = [kind for kind in self._kinds if not (deep and kind in CHILDREN) and not (nested and kind in NESTING)]
        return self._make(self._chance.choice(kinds or PLAIN), workflow_id, depth, nesting)

    def _make(self, kind: str, workflow_id: str, depth: int, nesting: int) -> Step:
        self._count += 1
        step: Step = {"do": kind, "name": f"{kind}{self._count}"}
        if kind in ("child", "orphan", "spawn", "watched"):
            step["program"] = self.program(f"{workflow_id}.{self._count}", depth + 1)
            step["policy"] = self._chance.choice(("terminate", "abandon", "request_cancel"))
        elif kind in ("all", "group", "race"):
            number = self._chance.randint(2, 3)
            step["steps"] = [self._step(workflow_id, depth, nesting + 1) for _ in range(number)]
        elif kind in ("limit", "drop"):
            step["step"] = self._step(workflow_id, depth, nesting + 1)
            step["secs"] = self._chance.choice((0.0, 0.5, 2.0, 6.0))
        else:
            step.update(SIMPLE[kind](self._chance, self._count))
        return step


def _act(chance: random.Random, number: int) -> Step:
    return {
        "fails": chance.choice((0, 0, 0, 1, 2)),
        "secs": chance.choice((0.0, 0.0, 0.01, 0.5, 3.0)),
        "value": number,
        "opts": {"max_attempts": 0, "initial_interval_secs": chance.choice((0.1, 1.0)), "maximum_interval_secs": 4.0},
    }


def _long(chance: random.Random, number: int) -> Step:
    """Longer than a lease: its worker must extend it."""
    return {**_act(chance, number), "secs": 13.0, "fails": 0}


def _limited(chance: random.Random, number: int) -> Step:
    most = chance.choice((1, 2, 3))
    return {
        **_act(chance, number),
        "fails": chance.choice((most, most, most - 1)),
        "opts": {"max_attempts": most, "initial_interval_secs": 0.5},
    }


def _final(chance: random.Random, number: int) -> Step:
    """An attempt may be lost before it fails: it fails every time."""
    return {**_act(chance, number), "fails": 1_000, "opts": {"max_attempts": 0, "non_retryable": ["RuntimeError"]}}


def _hang(chance: random.Random, number: int) -> Step:
    opts = {"max_attempts": 0, "initial_interval_secs": 0.2, "start_to_close_secs": chance.choice((1.0, 3.0))}
    return {**_act(chance, number), "fails": 0, "secs": 0.1, "hangs": chance.choice((1, 2)), "opts": opts}


def _tight(chance: random.Random, number: int) -> Step:
    """Ends at the very moment at which its time is over, until it has had enough of that."""
    opts = {"max_attempts": 0, "initial_interval_secs": 0.05, "start_to_close_secs": 1.0}
    return {**_act(chance, number), "fails": 0, "secs": chance.choice((0.9995, 0.9999, 1.0)), "tight": 2, "opts": opts}


def _late(chance: random.Random, number: int) -> Step:
    limit = chance.choice(("schedule_to_close_secs", "schedule_to_start_secs"))
    return {**_act(chance, number), "opts": {"max_attempts": 0, limit: chance.choice((0.5, 3.0))}}


def _beat(chance: random.Random, number: int) -> Step:
    opts = {"max_attempts": 0, "initial_interval_secs": 0.2, "heartbeat_timeout_secs": chance.choice((2.0, 4.0))}
    hangs = chance.choice((0, 0, 1))
    return {"secs": chance.choice((1.0, 6.0)), "hangs": hangs, "value": number, "opts": opts}


def _sleep(chance: random.Random, _: int) -> Step:
    return {"secs": chance.choice((0.001, 0.5, 2.0, 7.0))}


def _signal(chance: random.Random, _: int) -> Step:
    return {"count": chance.choice((1, 1, 2, 3))}


def _perhaps(chance: random.Random, _: int) -> Step:
    return {"count": 1, "secs": chance.choice((0.2, 2.0, 5.0))}


def _effect(chance: random.Random, _: int) -> Step:
    return {"none": chance.random() < 0.3}


def _inline(chance: random.Random, number: int) -> Step:
    return {
        "fails": chance.choice((0, 0, 1, 2)),
        "secs": chance.choice((0.0, 0.2, 2.0, 2.0, 13.0)),
        "value": number,
        "interval": chance.choice((0.1, 0.1, 11.0)),
    }


def _walk_steps(chance: random.Random, _: int) -> Step:
    """Long enough that outcomes are sent before the code goes on from them."""
    return {"count": EARLY_REPORT_AFTER_TURNS + chance.randint(1, 4), "secs": chance.choice((0.0, 0.0, 0.1))}


def _clocks(chance: random.Random, _: int) -> Step:
    return {"each": [chance.choice((0.2, 0.5, 1.0, 3.0)) for _ in range(3)]}


def _bug(chance: random.Random, _: int) -> Step:
    return {"times": chance.choice((0, 1, 2))}


def _nothing(_: random.Random, __: int) -> Step:
    return {}


SIMPLE: dict[str, Callable[[random.Random, int], Step]] = {
    "act": _act,
    "long": _long,
    "limited": _limited,
    "final": _final,
    "hang": _hang,
    "tight": _tight,
    "late": _late,
    "beat": _beat,
    "sleep": _sleep,
    "clocks": _clocks,
    "flash": _nothing,
    "signal": _signal,
    "perhaps": _perhaps,
    "effect": _effect,
    "inline": _inline,
    "stamp": _nothing,
    "chance": _nothing,
    "attributes": _nothing,
    "walk": _walk_steps,
    "bug": _bug,
    "linked": _nothing,
    "swapped": lambda _, __: {},
    "version": _nothing,
}
"""Steps that contain no others, with what chance decides about each."""

SWAPPED = "swapped"
WATCHING = ("spawn", "watched", "linked")
ON_REQUEST = ("bug", SWAPPED, *WATCHING, "version")
"""Steps only of worlds that ask for them: in all others every task is done and every replay follows its history."""
PLAIN = tuple(kind for kind in SIMPLE if kind not in ON_REQUEST)

CHILDREN = ("child", "orphan", "spawn", "watched", "linked")
NESTING = ("all", "group", "race", "limit", "drop")
KINDS = (*PLAIN, *(kind for kind in CHILDREN if kind not in WATCHING), *NESTING)


def expected(step: Step) -> Any:
    """What a step or a program is to result in."""
    if "steps" in step and "do" not in step:
        return [expected(one) for one in step["steps"] if one["do"] != "again"]
    return MODEL[step["do"]](step)


def _limited_result(step: Step) -> Any:
    return FAILED if step["fails"] >= step["opts"]["max_attempts"] else OneOf(step["value"], FAILED)


def _several(step: Step) -> Any:
    return [expected(one) for one in step["steps"]]


MODEL: dict[str, Callable[[Step], Any]] = {
    "act": lambda step: step["value"],
    "long": lambda step: step["value"],
    "limited": _limited_result,
    "final": lambda _: FAILED,
    "hang": lambda step: step["value"],
    "tight": lambda step: step["value"],
    "late": lambda step: OneOf(step["value"], FAILED),
    "beat": lambda step: step["value"],
    "sleep": lambda _: SAME,
    "clocks": lambda step: [SAME] * len(step["each"]),
    "flash": lambda _: SAME,
    "signal": lambda step: list(range(step["count"])),
    "perhaps": lambda _: OneOf(0, None),
    "effect": lambda _: SAME,
    "version": lambda _: SAME,
    "inline": lambda step: step["value"],
    "stamp": lambda _: SAME,
    "chance": lambda _: SAME,
    "attributes": lambda _: SAME,
    "walk": lambda step: list(range(step["count"])),
    "break": lambda _: SAME,
    SWAPPED: lambda _: [SAME, SAME],
    "bug": lambda _: SAME,
    "child": lambda step: expected(step["program"]),
    "orphan": lambda _: SAME,
    "spawn": lambda step: expected(step["program"]),
    "watched": lambda step: expected(step["program"]),
    "linked": lambda _: "CANCELED",
    "all": _several,
    "group": _several,
    "race": lambda step: OneOf(*([place, expected(one)] for place, one in enumerate(step["steps"]))),
    "limit": lambda step: OneOf(expected(step["step"]), TIMED_OUT),
    "drop": lambda step: OneOf(expected(step["step"]), DROPPED),
}


def matches(wanted: Any, found: Any) -> bool:
    """Is a result one of those that the model allows?"""
    if isinstance(wanted, OneOf):
        return any(matches(option, found) for option in wanted.options)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(matches, wanted, found))
    return type(wanted) is type(found) and bool(wanted == found)


def walk(program: Step) -> Iterator[tuple[str, Step]]:
    """Every step of a program and of its children, with the workflow id that takes it."""
    for step in program["steps"]:
        yield from _walk(program["id"], step)


def _walk(workflow_id: str, step: Step) -> Iterator[tuple[str, Step]]:
    yield workflow_id, step
    if "program" in step:
        yield from walk(step["program"])
    for inner in (*step.get("steps", ()), *([step["step"]] if "step" in step else ())):
        yield from _walk(workflow_id, inner)
