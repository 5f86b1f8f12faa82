"""Seeded programs for workflows, each with the one result that it must have however often its process is killed.

A program is a list of steps, JSON all through. What a step yields is `[value, nonce]`: the value is predicted here, the
nonce is fresh in every execution and ties the result to the execution that was recorded.
"""

import random
from typing import Any

from assay.sdk.worker.workflow_tasks import EARLY_REPORT_AFTER_TURNS

Step = list[Any]
Program = dict[str, Any]

ONCE_OUTCOMES = ("ok", "lost")
"""An activity with one attempt either ran or was lost with its process; it is never tried again."""

ENDINGS = ["complete"] * 16 + ["fail", "cancel", "cancel", "terminate"]


def programs(seed: int, count: int) -> list[Program]:
    """The programs of a run, the same for the same seed."""
    return [_program(random.Random(f"{seed}/{index}")) for index in range(count)]  # noqa: S311  # repeatable on purpose


def slowed(plans: list[Program], seed: int, shortest: float, longest: float) -> list[Program]:
    """The same programs with activities that take their time; what they yield stays the same."""
    chance = random.Random(f"slowed {seed}")  # noqa: S311  # repeatable on purpose

    def slow(step: Step) -> Step:
        match step:
            case ["thread_activity", number, _]:
                return ["thread_activity", number, round(chance.uniform(shortest, longest), 3)]
            case ["child", steps]:
                return ["child", [slow(inner) for inner in steps]]
        return step

    return [{**program, "steps": [slow(step) for step in program["steps"]]} for program in plans]


def _program(chance: random.Random) -> Program:
    steps = [_step(chance, depth=0) for _ in range(chance.randint(1, 5))]
    return {"steps": steps, "ending": chance.choice(ENDINGS), "done": []}


def _step(chance: random.Random, depth: int) -> Step:
    below = [_child, _errand, _watched]
    makers = [*_LEAVES, *below] if depth else [*_LEAVES, _signal, _renew, *below]
    return chance.choice(makers)(chance, depth)


def _number(chance: random.Random) -> int:
    return chance.randrange(1_000_000)


def _pause(chance: random.Random) -> float:
    return round(chance.uniform(0.01, 0.6), 3)


def _activity(chance: random.Random, _: int) -> Step:
    return ["activity", _number(chance)]


def _thread_activity(chance: random.Random, _: int) -> Step:
    return ["thread_activity", _number(chance), chance.choice([0, 0, 0.05])]


def _flaky(chance: random.Random, _: int) -> Step:
    return ["flaky", _number(chance), chance.randint(1, 3)]


def _doomed(chance: random.Random, _: int) -> Step:
    return ["doomed", _number(chance)]


def _once(chance: random.Random, _: int) -> Step:
    return ["once", _number(chance)]


def _parallel(chance: random.Random, _: int) -> Step:
    return ["parallel", [_number(chance) for _ in range(chance.randint(2, 6))]]


def _inline(chance: random.Random, _: int) -> Step:
    return ["inline", _number(chance)]


def _flaky_inline(chance: random.Random, _: int) -> Step:
    return ["flaky_inline", _number(chance), chance.randint(1, 2)]


def _walk(chance: random.Random, _: int) -> Step:
    """Return sequential steps, enough of them that the worker reports outcomes early."""
    return ["walk", [_number(chance) for _ in range(EARLY_REPORT_AFTER_TURNS + chance.randint(1, 8))]]


def _side_effect(_chance: random.Random, _: int) -> Step:
    return ["side_effect"]


def _timer(chance: random.Random, _: int) -> Step:
    return ["timer", _pause(chance)]


def _silence(chance: random.Random, _: int) -> Step:
    return ["silence", _pause(chance)]


def _signal(chance: random.Random, _: int) -> Step:
    return ["signal", f"go-{_number(chance)}"]


def _renew(_chance: random.Random, _: int) -> Step:
    return ["renew"]


def _child(chance: random.Random, depth: int) -> Step:
    if depth >= 2:
        return _activity(chance, depth)
    return ["child", [_step(chance, depth + 1) for _ in range(chance.randint(1, 3))]]


def _errand(chance: random.Random, _: int) -> Step:
    return ["errand", _number(chance), _pause(chance)]


def _watched(chance: random.Random, _: int) -> Step:
    return [chance.choice(["monitored", "linked"]), _number(chance), _pause(chance)]


_LEAVES = [
    _activity,
    _activity,
    _thread_activity,
    _flaky,
    _doomed,
    _once,
    _parallel,
    _inline,
    _inline,
    _flaky_inline,
    _walk,
    _side_effect,
    _timer,
    _silence,
]


def computed(number: int) -> int:
    """What every activity and step makes of its number."""
    return (number * 31 + 7) % 1_000_003


def signals_of(program: Program) -> list[str]:
    """The signals that a program waits for, in order."""
    return [step[1] for step in program["steps"] if step[0] == "signal"]


def predicted(step: Step) -> Any:
    """The value that a step yields."""
    match step:
        case ["activity" | "thread_activity" | "flaky" | "inline" | "flaky_inline", number, *_]:
            return computed(number)
        case ["errand" | "monitored" | "linked", number, _]:
            return computed(computed(number))
        case ["parallel" | "walk", numbers]:
            return [computed(number) for number in numbers]
        case ["child", steps]:
            return [predicted(inner) for inner in steps]
        case ["signal", name]:
            return name
        case ["once", _]:
            return ONCE_OUTCOMES
        case [kind, *_]:
            return kind
    raise AssertionError(f"no such step: {step}")


def agrees(expected: Any, found: Any) -> bool:
    """Is `found` what was predicted, or one of the two things that were?"""
    if expected is ONCE_OUTCOMES:
        return found in ONCE_OUTCOMES
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(agrees, expected, found))
    return bool(expected == found)
