"""The order of measuring: ours, the reference, ours, the reference ..., every second round backwards.

A machine that is shared or warms up changes while it is measured. Taking turns, it changes for both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from benchmarks.noise import NOISY_CORES, Meter, wait_for_quiet
from benchmarks.plan import INLINE, QUEUED, Case
from benchmarks.process import Contestant

REFERENCE = "reference"
WARM_UP = {"n": 96, "k": 1}


@dataclass
class Repetition:
    """One timed run of a workload."""

    case: str
    side: str
    """A style of ours, or the reference."""
    measures: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    foreign_cores: float = 0.0
    error: str | None = None

    @property
    def noisy(self) -> bool:
        """Was the machine shared while it ran?"""
        return self.foreign_cores > NOISY_CORES


@dataclass(frozen=True)
class Rounds:
    """How often, and how patiently; `bystanders` are processes of ours beside the contestants, such as a database."""

    repetitions: int
    patience: float
    bystanders: tuple[int, ...] = ()

    async def run_rounds(self, case: Case, ours: Contestant, reference: Contestant) -> list[Repetition]:
        """All repetitions of a case."""
        await _warm_up(case, ours, reference)
        sides = [QUEUED, REFERENCE, *(style for style in case.styles if style == INLINE)]
        measured = []
        for number in range(self.repetitions):
            for side in sides if number % 2 == 0 else sides[::-1]:
                if side != REFERENCE:
                    measured.append(await self._measure(case, side, ours, case.size))
                elif case.reference_size is not None:
                    measured.append(await self._measure(case, side, reference, case.reference_size))
        return measured

    async def _measure(self, case: Case, side: str, contestant: Contestant, size: dict[str, Any]) -> Repetition:
        ours = (os.getpid(), *self.bystanders)  # the contestants are children of this process
        await wait_for_quiet(ours, self.patience)
        meter = Meter(ours)
        answer = await contestant.ask(case.workload, QUEUED if side == REFERENCE else side, size)
        measured = Repetition(case.name, side, foreign_cores=meter.foreign_cores(), error=answer.get("error"))
        measured.measures = answer.get("measures", {})
        measured.cpu_seconds = answer.get("cpu_seconds", 0.0)
        _tell(measured)
        return measured


async def _warm_up(case: Case, ours: Contestant, reference: Contestant) -> None:
    for style in case.styles:
        await ours.ask("W1", style, WARM_UP)
    if case.reference_size is not None:
        await reference.ask("W1", QUEUED, WARM_UP)


def _tell(measured: Repetition) -> None:
    shown = "  ".join(f"{key} {value:,.2f}" for key, value in measured.measures.items())
    noise = f"  (others used {measured.foreign_cores:.2f} cores)" if measured.noisy else ""
    print(f"  {measured.case:<22} {measured.side:<9} {measured.error or shown}{noise}", flush=True)
