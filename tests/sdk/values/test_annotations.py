"""What a function says that it returns, however it was made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from assay.sdk.values import annotations
from assay.sdk.values.annotations import result_annotation
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay


@dataclasses.dataclass
class Cat:
    lives: int


@dataclasses.dataclass
class Dog:
    tricks: int


def returning(annotation: Any) -> Callable[[], Any]:
    """Functions that share their code, as if each had been written with its own annotation."""

    def load() -> None: ...

    load.__annotations__ = {"return": annotation}
    return load


@pytest.mark.parametrize("annotation", [Cat, Dog, list[Cat], list[Dog], Cat | None, Annotated[Cat, []], dict[str, Any]])
def test_functions_with_the_same_code_have_types_of_their_own(annotation: Any):
    assert result_annotation(returning(annotation)) == annotation
    assert result_annotation(returning(annotation)) == annotation


def test_a_text_is_looked_up_where_the_function_was_written():
    def cat() -> Cat: ...
    def dogs() -> list[Dog]: ...

    assert result_annotation(cat) is Cat
    assert result_annotation(dogs) == list[Dog]
    assert result_annotation(cat) is Cat


def test_also_among_what_it_takes_from_its_surroundings():
    def loader(kind: type) -> Callable[[], Any]:
        def load() -> kind:  # type: ignore[valid-type]
            return kind(1)

        return load

    assert [result_annotation(loader(kind)) for kind in (Cat, Dog, Cat)] == [Cat, Dog, Cat]


def test_a_function_that_says_nothing_returns_anything():
    assert result_annotation(lambda: 1) is Any
    assert result_annotation(int) is Any


def test_the_memory_of_annotations_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotations, "CACHED_FUNCTIONS", 5)
    for number in range(20):
        result_annotation(returning(Annotated[int, number]))
    assert len(annotations._known) <= 5


@pytest.mark.parametrize("in_place", [True, False])
def test_steps_and_side_effects_of_one_making_give_each_its_own(in_place: bool):
    async def workflow(ctx: Context) -> Any:
        def loader(kind: type) -> Callable[[], Any]:
            def load() -> kind:  # type: ignore[valid-type]
                return kind(1)

            load.__annotations__ = {"return": kind}  # as without the import at the top of this file
            return load

        do = ctx.side_effect if in_place else ctx.run
        return [type(await do(kind.__name__, loader(kind))).__name__ for kind in (Cat, Dog)]

    trial = Trial(workflow)
    if not in_place:
        trial.step(1).step(2)
    assert trial.result == ["Cat", "Dog"]
    check_replay(trial)
