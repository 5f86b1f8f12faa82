"""Slots are counted for activities that need them, and only for these."""

from assay.core.slots import Slots


def test_a_slot_is_reserved_and_released_for_the_names_that_need_one():
    slots = Slots(frozenset({"computes"}), 1)
    assert slots.exhausted == frozenset()
    slots.reserve("calls")
    assert slots.free == 1
    slots.reserve("computes")
    assert (slots.free, slots.exhausted) == (0, {"computes"})
    slots.release("calls")
    assert slots.free == 0
    slots.release("computes")
    assert (slots.free, slots.exhausted) == (1, frozenset())


def test_a_slot_that_was_lost_after_it_was_reserved_is_owed():
    slots = Slots(frozenset({"computes"}))
    slots.reserve("computes")
    slots.release("computes")
    assert slots.exhausted == {"computes"}
