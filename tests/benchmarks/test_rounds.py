import asyncio
from typing import Any, cast

from benchmarks.plan import INLINE, QUEUED, Case, Measure
from benchmarks.process import Contestant
from benchmarks.rounds import REFERENCE, Rounds


class Recorder:
    """A contestant that only notes what it is asked."""

    def __init__(self, name: str, requests: list[tuple[str, str, str, Any]]) -> None:
        self._name = name
        self._asked = requests

    async def ask(self, workload: str, style: str, size: dict[str, Any]) -> Any:
        self._asked.append((self._name, workload, style, size.get("n")))
        return {"measures": {"rate": 1.0}, "cpu_seconds": 0.5}


def run_rounds(case: Case, repetitions: int) -> tuple[list[str], list[tuple[str, str, str, Any]]]:
    requests: list[tuple[str, str, str, Any]] = []
    ours, reference = (cast(Contestant, Recorder(name, requests)) for name in ("ours", "theirs"))
    repeated = asyncio.run(Rounds(repetitions, patience=0).run_rounds(case, ours, reference))
    return [one.side for one in repeated], requests


def case(reference_size: dict[str, Any] | None, *styles: str) -> Case:
    return Case("W2 ten", "W2", (Measure("rate", "per s"),), {"n": 8}, reference_size, styles)


def test_every_second_round_goes_backwards():
    sides, requests = run_rounds(case({"n": 4}, QUEUED, INLINE), 2)
    assert sides == [QUEUED, REFERENCE, INLINE, INLINE, REFERENCE, QUEUED]
    assert [one[0] for one in requests if one[1] == "W2"] == ["ours", "theirs", "ours", "ours", "theirs", "ours"]


def test_everybody_warms_up_in_what_is_measured():
    _, requests = run_rounds(case({"n": 4}, QUEUED, INLINE), 1)
    assert [(name, workload, style) for name, workload, style, _ in requests[:3]] == [
        ("ours", "W1", QUEUED),
        ("ours", "W1", INLINE),
        ("theirs", "W1", QUEUED),
    ]


def test_each_side_has_its_size():
    _, requests = run_rounds(case({"n": 4}, QUEUED), 1)
    assert [(one[0], one[3]) for one in requests if one[1] == "W2"] == [("ours", 8), ("theirs", 4)]


def test_a_reference_without_a_size_is_left_out():
    sides, requests = run_rounds(case(None, QUEUED), 2)
    assert sides == [QUEUED, QUEUED]
    assert {one[0] for one in requests} == {"ours"}
