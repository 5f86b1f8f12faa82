"""One line that says how a scenario ended, and the sentences behind its numbers."""

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.evidence import Evidence, gather
from tests.chaos.lives import Chronicle, Scenario, survive
from tests.chaos.plan import programs
from tests.chaos.verdict import CHECKS, lateness


@dataclass
class Report:
    """What a scenario found out."""

    scenario: Scenario
    chronicle: Chronicle
    acked: int
    unknown: int
    runs: int
    events: int
    executions: int
    late: list[float]
    seconds: float
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """Each check with what it found; all lists are empty when everything is well."""

    @property
    def clean(self) -> bool:
        """Is nothing wrong at all?"""
        return not any(self.wrong.values())

    def line(self) -> str:
        """The report line."""
        found = " ".join(f"{name}={len(sentences)}" for name, sentences in self.wrong.items())
        recoveries = self.chronicle.recoveries
        return (
            f"{self.scenario.store} kill-9: kills={self.chronicle.kills} workflows={self.scenario.workflows}"
            f" runs={self.runs} events={self.events} executions={self.executions}"
            f" acked={self.acked} unknown={self.unknown} {found}"
            f" late_p50={percentile(self.late, 50):.3f}s late_p99={percentile(self.late, 99):.1f}s"
            f" recovery_p50={percentile(recoveries, 50):.2f}s recovery_p99={percentile(recoveries, 99):.2f}s"
            f" seconds={self.seconds:.0f} seed={self.scenario.seed}"
        )

    def sentences(self, most: int = 20) -> list[str]:
        """What is wrong, in words."""
        return [f"{name}: {sentence}" for name, found in self.wrong.items() for sentence in found[:most]]


def run(scenario: Scenario) -> Report:
    """Run a scenario and judge what it left behind."""
    began = time.monotonic()
    chronicle = survive(scenario)
    evidence = asyncio.run(gather(scenario.url, scenario.folder, scenario.processes))
    return _judged(scenario, chronicle, evidence, time.monotonic() - began)


def _judged(scenario: Scenario, chronicle: Chronicle, evidence: Evidence, seconds: float) -> Report:
    plans = programs(scenario.seed, scenario.workflows)
    asked = [line for line in evidence.acks if line["what"] == "asked"]
    answered = [line for line in evidence.acks if line["what"] not in ("asked", "closed")]
    report = Report(
        scenario,
        chronicle,
        acked=sum(not line["refused"] for line in answered),
        unknown=len(asked) - len(answered),
        runs=len(evidence.stories),
        events=sum(len(story.events) for story in evidence.stories),
        executions=len(evidence.effects),
        late=lateness(evidence),
        seconds=seconds,
    )
    report.wrong = {name: list(check(evidence, plans)) for name, check in CHECKS.items()}
    report.wrong["violations"] = violations(scenario.url)
    report.wrong["refused_restarts"] = ["a process ended by itself"] * chronicle.died
    report.wrong["slow_stops"] = ["a process did not stop when asked"] * chronicle.slow_stops
    return report


def violations(url: str) -> list[str]:
    """What `assay verify` says of the store."""
    command = [sys.executable, "-m", "assay.cli.main", "verify", "--json", url]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = told.stdout.splitlines()
    return found if found or told.returncode == 0 else [told.stderr.strip()]


def percentile(values: Sequence[float], share: int) -> float:
    """The smallest value that `share` percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)] if ordered else 0.0
