"""One line that says how a scenario ended, and the sentences behind its numbers."""

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.evidence import Evidence, gather
from tests.chaos.lives import Scenario, survive
from tests.chaos.plan import Program, programs
from tests.chaos.verdict import CHECKS, lateness


@dataclass
class Report:
    """What a scenario found out."""

    title: str
    facts: dict[str, int] = field(default_factory=dict)
    """What was done."""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """Each check with what it found; all lists are empty when everything is well."""
    measures: dict[str, str] = field(default_factory=dict)
    """How long things took."""

    @property
    def clean(self) -> bool:
        """Is nothing wrong at all?"""
        return not any(self.wrong.values())

    def line(self) -> str:
        """The report line."""
        counts = {name: len(sentences) for name, sentences in self.wrong.items()}
        figures = {**self.facts, **counts, **self.measures}
        return f"{self.title}: " + " ".join(f"{name}={value}" for name, value in figures.items())

    def sentences(self, most: int = 20) -> list[str]:
        """What is wrong, in words."""
        return [f"{name}: {sentence}" for name, found in self.wrong.items() for sentence in found[:most]]

    def measure(self, name: str, seconds: Sequence[float], shares: Sequence[int] = (50, 99), digits: int = 2) -> None:
        """Tell how long something took."""
        for share in shares:
            self.measures[f"{name}_p{share}"] = f"{percentile(seconds, share):.{digits}f}s"


def run(scenario: Scenario) -> Report:
    """Run a scenario and judge what it left behind."""
    began = time.monotonic()
    chronicle = survive(scenario)
    evidence = asyncio.run(gather(scenario.url, scenario.folder, scenario.processes))
    report = judged(f"{scenario.store} kill-9", evidence, programs(scenario.seed, scenario.workflows), scenario.url)
    report.facts = {"kills": chronicle.kills, **report.facts}
    report.wrong["refused_restarts"] = ["a process ended by itself"] * chronicle.died
    report.wrong["slow_stops"] = ["a process did not stop when asked"] * chronicle.slow_stops
    report.measure("recovery", chronicle.recoveries)
    report.measures |= {"seconds": f"{time.monotonic() - began:.0f}", "seed": str(scenario.seed)}
    return report


def judged(title: str, evidence: Evidence, plans: list[Program], url: str) -> Report:
    """Compare what a scenario left behind with what was promised and predicted."""
    requested = [line for line in evidence.acks if line["what"] == "asked"]
    answered = [line for line in evidence.acks if line["what"] not in ("asked", "closed")]
    report = Report(title)
    report.facts = {
        "workflows": len(plans),
        "runs": len(evidence.stories),
        "events": sum(len(story.events) for story in evidence.stories),
        "executions": len(evidence.effects),
        "acked": sum(not line["refused"] for line in answered),
        "unknown": len(requested) - len(answered),
    }
    report.wrong = {name: list(check(evidence, plans)) for name, check in CHECKS.items()}
    report.wrong["violations"] = violations(url)
    report.measure("late", lateness(evidence), digits=3)
    return report


def violations(url: str) -> list[str]:
    """What `assay verify` says of the store."""
    command = [sys.executable, "-m", "assay.cli.main", "verify", "--json", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = done.stdout.splitlines()
    return found if found or done.returncode == 0 else [done.stderr.strip()]


def percentile(values: Sequence[float], share: int) -> float:
    """The smallest value that `share` percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)] if ordered else 0.0
