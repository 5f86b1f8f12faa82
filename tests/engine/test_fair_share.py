"""The next batch: namespaces take turns, and workers go first without shutting callers out."""

from collections import Counter
from typing import NamedTuple

from assay.engine.commit.fair_share import fair_share


class Waiting(NamedTuple):
    caller: str | None
    number: int


def waiting(*callers: tuple[str | None, int]) -> list[Waiting]:
    return [Waiting(caller, number) for caller, count in callers for number in range(count)]


def test_a_namespace_with_many_callers_leaves_room_for_another():
    queue = waiting(("a", 1_000), ("b", 2))
    batch, rest = fair_share(queue, 100)
    assert Counter(one.caller for one in batch) == {"a": 98, "b": 2}
    assert [one.number for one in batch if one.caller == "a"] == list(range(98)), "in the order of arrival"
    assert batch + rest != queue
    assert sorted(batch + rest) == sorted(queue)
    assert rest == [one for one in queue if one not in set(batch)]


def test_namespaces_share_a_batch_evenly():
    batch, _ = fair_share(waiting(("a", 500), ("b", 90), ("c", 10)), 100)
    assert Counter(one.caller for one in batch) == {"a": 45, "b": 45, "c": 10}


def test_workers_go_first_and_callers_are_not_shut_out():
    batch, rest = fair_share(waiting(("a", 200), (None, 1_000)), 100)
    assert Counter(one.caller for one in batch) == {None: 75, "a": 25}
    assert [one.number for one in batch if one.caller is None] == list(range(75))
    batch, _ = fair_share(waiting((None, 1_000)), 100)
    assert len(batch) == 100
    batch, _ = fair_share(waiting(("a", 500), (None, 5)), 100)
    assert Counter(one.caller for one in batch) == {"a": 95, None: 5}
    assert len(rest) == 1_100
