"""Each kind of work has its slots; activities that run in a process need one of these as well."""

from assay.core.model.slots import Slots


def free(slots: Slots) -> tuple[int, int, int]:
    return slots.tasks, slots.activities, slots.processes


def test_a_slot_is_reserved_and_released_for_each_kind_of_work():
    slots = Slots(2, 3, frozenset({"computes"}), 1)
    slots.reserve()
    assert free(slots) == (1, 3, 1)
    slots.reserve("calls")
    assert (free(slots), slots.exhausted) == ((1, 2, 1), frozenset())
    slots.reserve("computes")
    assert (free(slots), slots.exhausted) == ((1, 1, 0), {"computes"})
    slots.release("calls")
    slots.release()
    assert free(slots) == (2, 2, 0)
    slots.release("computes")
    assert (free(slots), slots.exhausted) == ((2, 3, 1), frozenset())


def test_a_process_that_exited_after_it_was_reserved_is_owed():
    slots = Slots(0, 1, frozenset({"computes"}))
    slots.reserve("computes")
    slots.release("computes")
    assert slots.exhausted == {"computes"}
