"""`ctx.attrs` writes both parts in one step, and refuses what a filter could not find."""

from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model.errors import Invalid
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, payload


def test_both_parts_are_one_command():
    async def code(ctx: Context) -> None:
        await ctx.attrs(search={"status": "new"}, memo={"notes": "vip"})
        ctx.upsert_search_attributes({"status": None})
        ctx.upsert_memo({"notes": None})

    upserts = [command for command in Trial(code).commands if isinstance(command, cmd.UpsertAttributes)]
    assert upserts == [
        cmd.UpsertAttributes(payload({"status": "new"}), payload({"notes": "vip"})),
        cmd.UpsertAttributes(search=payload({"status": None})),
        cmd.UpsertAttributes(memo=payload({"notes": None})),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"search": [1]},
        {"memo": "x"},
        {"search": {"x": {}}},
        {"search": {1: "x"}},
        {"search": {"x": [1]}, "memo": {}},
    ],
)
@pytest.mark.parametrize("blocking", [False, True])
def test_malformed_attributes_are_refused_at_the_call_and_nothing_is_written(given: dict[str, Any], blocking: bool):
    async def code(ctx: Context) -> str:
        with pytest.raises(Invalid):
            ctx.attrs(**given)
        return "went on"

    def plain(ctx: BlockingContext) -> str:
        with pytest.raises(Invalid):
            ctx.attrs(**given)
        return "went on"

    trial = Trial(plain if blocking else code)
    assert trial.result == "went on"
    assert len(trial.commands) == 1
