"""Ready work in memory: oldest first, at a cost that types without workers do not raise."""

import random

import pytest

from assay.core.model.ids import RunId
from assay.engine.ready_queue import ReadyQueue


def filled(*entries: tuple[str, int, str, int]) -> ReadyQueue:
    queue = ReadyQueue()
    for kind, since, run_id, seq in entries:
        queue.add(kind, since, RunId(run_id), seq)
    return queue


def popped(queue: ReadyQueue, kinds: frozenset[str] | None, **options: frozenset[str]) -> list[str]:
    found = []
    while (one := queue.pop(kinds, **options)) is not None:
        found.append(one[0])
    return found


@pytest.mark.parametrize("kinds", [None, frozenset({"A", "B", "C"})])
def test_the_oldest_work_comes_first_whatever_its_type_and_however_late_it_was_added(kinds: frozenset[str] | None):
    queue = filled(("A", 5, "r3", 0), ("B", 4, "r2", 0), ("A", 6, "r4", 0), ("C", 6, "r5", 0), ("A", 1, "r1", 0))
    assert not queue.add("A", 1, RunId("r1"), 0), "queued already"
    assert popped(queue, kinds) == ["r1", "r2", "r3", "r4", "r5"]
    assert (len(queue), queue.has_any(None)) == (0, False)


def test_other_types_and_exhausted_ones_stay():
    queue = filled(("A", 1, "r1", 0), ("B", 2, "r2", 0), ("C", 3, "r3", 0))
    assert popped(queue, frozenset({"B", "D"})) == ["r2"]
    assert popped(queue, None, exhausted=frozenset({"A"})) == ["r3"]
    assert (queue.has("A"), queue.has_any(frozenset({"B", "C"}))) == (True, False)
    assert popped(queue, None) == ["r1"]


def test_the_work_of_a_run_that_ended_is_dropped():
    queue = filled(*(("A", since, f"r{since}", seq) for since in range(1, 40) for seq in (1, 2)))
    for since in range(2, 40):
        queue.drop(RunId(f"r{since}"))
    assert (len(queue), queue.runs(), len(queue._heaps["A"])) == (2, ("r1",), 2)
    queue.drop(RunId("r1"), 1)
    queue.add("B", 9, RunId("r1"), 1)
    assert popped(queue, frozenset({"A", "B"})) == ["r1", "r1"]
    assert not queue._heaps, "a type without work leaves nothing behind"


def test_it_agrees_with_a_sorted_list():
    chance = random.Random(7)  # noqa: S311  # repeatable on purpose
    for _ in range(200):
        queue, model = ReadyQueue(), {}
        for number in range(60):
            run_id = RunId(f"r{number:02}")
            match chance.randrange(4):
                case 0 | 1:
                    kind, since = chance.choice("ABCD"), chance.randrange(20)
                    queue.add(kind, since, run_id, 0)
                    model[run_id] = (since, run_id, kind)
                case 2 if model:
                    gone = chance.choice(sorted(model))
                    queue.drop(gone)
                    del model[gone]
                case _:
                    kinds = chance.choice([None, frozenset("A"), frozenset("BCX"), frozenset("ABCDEFGH")])
                    fitting = [one for one in model.values() if kinds is None or one[2] in kinds]
                    found = queue.pop(kinds)
                    assert found == ((min(fitting)[1], 0, min(fitting)[2]) if fitting else None)
                    if found is not None:
                        del model[found[0]]
            assert len(queue) == len(model)


@pytest.mark.parametrize("kinds", [None, frozenset({"Served", "Other"})])
def test_types_nobody_serves_cost_the_others_nothing(monkeypatch: pytest.MonkeyPatch, kinds: frozenset[str] | None):
    """Counted in lines that are looked at, because that is what twenty thousand types would multiply."""
    queue = ReadyQueue()
    for number in range(20_000):
        queue.add(f"Unserved{number}", 100_000 + number, RunId(f"u{number}"), 0)
    for number in range(50):
        queue.add("Served", number, RunId(f"s{number:02}"), 0)
    assert queue.pop(kinds) is not None  # the heap of heads is built once
    looks = 0
    head = ReadyQueue._head

    def counted(self: ReadyQueue, kind: str) -> object:
        nonlocal looks
        looks += 1
        return head(self, kind)

    monkeypatch.setattr(ReadyQueue, "_head", counted)
    for number in range(1, 50):
        assert queue.pop(kinds) == (f"s{number:02}", 0, "Served")
    assert looks <= 3 * 50
