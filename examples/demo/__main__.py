"""Shows durable work surviving kill -9: `python -m examples.demo`, until Ctrl-C.

Each order runs in a process of its own, with an engine on a SQLite file inside it. The demo kills that process in the
middle of a step, starts it again, and watches: steps that were done are not done again.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from examples.demo.screen import Screen
from examples.demo.shop import SECONDS_PER_STEP, STEPS

ROOT = Path(__file__).parents[2]
PAUSE = 2.0
VICTIMS = [step for step in STEPS if step not in ("reserve stock", "number parcel")]
"""Steps in which the process is killed; before the first there is nothing to lose, and one is over in no time."""


class Order:
    """One order, from its start to its end, however many processes that takes."""

    def __init__(self, url: str, name: str, screen: Screen) -> None:
        self._command = [sys.executable, "-m", "examples.demo.shop", url, name]
        self._name = name
        self._screen = screen
        self._done: set[str] = set()
        self._process: subprocess.Popen[str] | None = None
        self.begun: Counter[str] = Counter()
        self.repeated = 0
        self.kills = 0

    def fulfil(self, victims: set[str]) -> None:
        """See the order through; the process is killed in the middle of each step in `victims`."""
        while not self._live(victims):
            self.kills += 1

    def _live(self, victims: set[str]) -> bool:
        """One life of the process; did it come to the end?"""
        # In a session of its own, so that Ctrl-C on the terminal reaches the demo alone.
        self._process = subprocess.Popen(  # noqa: S603
            self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        for what, step, detail in self._told(self._process):
            if what == "result":
                self._show("completed", detail, "green")
                self._process.wait()
                return True
            self._watch(what, step, detail)
            if what == "began" and step in victims:
                victims.discard(step)
                self._kill()
                return False
        raise RuntimeError(f"{self._name}: the process ended by itself with code {self._process.wait()}")

    def _told(self, process: "subprocess.Popen[str]") -> Iterator[tuple[str, str, str]]:
        for line in process.stdout or ():
            what, step, detail = line.rstrip("\n").split("\t")
            yield what, step, detail

    def _watch(self, what: str, step: str, detail: str) -> None:
        if what == "ready" and self.begun:
            self._show("", f"started again, {len(self._done)} of {len(STEPS)} steps are done", "yellow")
        elif what == "began":
            self.begun[step] += 1
            self.repeated += step in self._done
            if self.begun[step] > 1:
                self._show(step, "begins again, because it was not done", "yellow")
        elif what == "done":
            self._done.add(step)
            self._show(step, "done", "green")

    def _kill(self) -> None:
        time.sleep(SECONDS_PER_STEP / 2)
        running = next(step for step in STEPS if step not in self._done)
        self._show(running, "kill -9 in the middle of it", "red")
        self.stop()

    def stop(self) -> None:
        """Kill the process if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _show(self, what: str, detail: str, colour: str) -> None:
        self._screen.fact(self._process.pid if self._process else 0, what, detail, colour)


class Demo:
    """One order after the other, until somebody has seen enough."""

    def __init__(self, url: str, screen: Screen) -> None:
        self._url = url
        self._screen = screen
        self._orders = self._kills = self._begun = self._repeated = 0

    def run(self, orders: int | None) -> None:
        """Fulfil orders, `orders` of them or without end."""
        while orders is None or self._orders < orders:
            if self._orders:
                time.sleep(PAUSE)
            self._run_one(f"order-{self._orders + 1:04}")

    def _run_one(self, name: str) -> None:
        order = Order(self._url, name, self._screen)
        self._screen.title(f"{name}   {len(STEPS)} steps")
        try:
            order.fulfil(set(random.sample(VICTIMS, random.choice([1, 1, 2]))))  # noqa: S311  # no secret
        finally:
            order.stop()
        self._orders += 1
        self._kills += order.kills
        self._begun += order.begun.total()
        self._repeated += order.repeated
        self._screen.text(f"  {self.summary()}")

    def summary(self) -> str:
        """All orders so far in one line."""
        return (
            f"so far: orders completed {self._orders}, processes killed {self._kills},"
            f" steps begun {self._begun}, done steps repeated {self._repeated}"
        )


def stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--orders", type=int, help="stop after so many orders")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    screen = Screen()
    screen.text("assay demo: an order pipeline that survives kill -9. Ctrl-C ends it.")
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as folder:
        demo = Demo(f"sqlite://{folder}/shop.db", screen)
        try:
            demo.run(chosen.orders)
        except KeyboardInterrupt:
            screen.text(f"\n\n{demo.summary()}")


if __name__ == "__main__":
    main()
