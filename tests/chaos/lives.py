"""Processes that are started, killed at random moments and started again."""

import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORTEST, LONGEST = 0.1, 1.5
"""Seconds that a process is left alone before it is killed."""

START_SECONDS = 30
STOP_SECONDS = 10
"""Seconds until a process that received SIGTERM must have exited."""


@dataclass(frozen=True)
class Scenario:
    """What is run, how often it is killed, and where it leaves its traces."""

    store: str
    url: str
    folder: Path
    kills: int
    workflows: int
    seed: int
    processes: int = 1
    patience: float = 120.0
    """Seconds after the last kill until the work has to be done."""


@dataclass
class Chronicle:
    """What happened to the processes."""

    recoveries: list[float] = field(default_factory=list)
    kills: int = 0
    died: int = 0
    """Processes that ended by themselves, as one would that a stale lock refused."""
    unfinished: int = 0
    slow_stops: int = 0


class Life:
    """One process from its start to its end."""

    def __init__(self, scenario: Scenario, place: int, number: int, until: int) -> None:
        command = [sys.executable, "-m", "tests.chaos.program", scenario.url, str(scenario.folder)]
        command += ["--seed", str(scenario.seed), "--until", str(until)]
        command += ["--place", str(place), "--places", str(scenario.processes)]
        self.began = time.monotonic()
        self.ready = threading.Event()
        self.done = threading.Event()
        self.ready_after: float | None = None
        with (scenario.folder / f"process-{place}-{number}.log").open("w") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            if line == "ready\n":
                self.ready_after = time.monotonic() - self.began
                self.ready.set()
            elif line == "done\n":
                self.done.set()
        self.ready.set()  # nobody need wait for the dead
        self.done.set()

    def ends_within(self, seconds: float) -> bool:
        """Does it end by itself?"""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._leave()

    def stop(self) -> bool:
        """Ask it to end; did it, in time and without complaint?"""
        self._process.send_signal(signal.SIGTERM)
        polite = self.ends_within(STOP_SECONDS) and self._process.returncode == 0
        self._process.kill()
        self._leave()
        return polite

    def _leave(self) -> None:
        self._process.wait()
        self._listener.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Reign:
    """Keeps the processes of a scenario running while it kills them."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._chance = random.Random(f"kills {scenario.seed}")  # noqa: S311  # repeatable on purpose
        self.chronicle = Chronicle()
        self._number = 0
        self._lives = [self._begin(place) for place in range(scenario.processes)]

    def _begin(self, place: int) -> Life:
        """Work is handed out life by life, so that there is some left for the last kill to interrupt."""
        scenario = self._scenario
        share = scenario.workflows * (self.chronicle.kills + 1) // (scenario.kills + 1)
        self._number += 1
        return Life(scenario, place, self._number, share)

    def kill_often(self) -> None:
        """Kill one process after the other, each time starting it again at once."""
        while self.chronicle.kills < self._scenario.kills:
            self._kill(self._chance.randrange(len(self._lives)))
        if len(self._lives) > 1:  # those that were not killed last do not know of all the work
            for place in range(len(self._lives)):
                self._stop(place)
                self._lives[place] = self._begin(place)

    def _kill(self, place: int) -> None:
        life = self._lives[place]
        while_starting = self._chance.random() < 0.25
        if not while_starting:
            life.ready.wait(START_SECONDS)
        if life.ends_within(self._chance.uniform(SHORTEST, LONGEST)):
            self.chronicle.died += 1
        life.kill()
        self.chronicle.kills += 1
        if life.ready_after is not None:
            self.chronicle.recoveries.append(life.ready_after)
        self._lives[place] = self._begin(place)

    def _stop(self, place: int) -> None:
        life = self._lives[place]
        life.ready.wait(START_SECONDS)
        if life.ends_within(0):
            self.chronicle.died += 1
        elif not life.stop():
            self.chronicle.slow_stops += 1
        if life.ready_after is not None:
            self.chronicle.recoveries.append(life.ready_after)

    def finish(self) -> None:
        """Let the processes end their work, then stop them."""
        end = time.monotonic() + self._scenario.patience
        for life in self._lives:
            if not life.done.wait(max(0.0, end - time.monotonic())):
                self.chronicle.unfinished += 1
        for place in range(len(self._lives)):
            self._stop(place)

    def abandon(self) -> None:
        """Leave no process behind."""
        for life in self._lives:
            life.kill()


def survive(scenario: Scenario) -> Chronicle:
    """Run a scenario to its end."""
    reign = Reign(scenario)
    try:
        reign.kill_often()
        reign.finish()
    finally:
        reign.abandon()
    return reign.chronicle
