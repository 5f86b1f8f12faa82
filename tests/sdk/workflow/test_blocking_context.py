"""`def` workflows have every verb of `async def` ones, with the same parameters."""

import inspect
from typing import Any

import pytest

from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.channels import Channel
from assay.sdk.workflow.context import Context

OWN_PARAMETERS = {"go", "gather", "start_child_workflow"}
"""Verbs whose blocking form takes functions or tasks instead of coroutines, or passes options on."""


def verbs(of: type) -> list[str]:
    return sorted(name for name in dir(of) if not name.startswith("_"))


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


def test_a_blocking_context_has_every_verb():
    assert verbs(BlockingContext) == verbs(Context)


def test_a_blocking_channel_has_every_verb():
    assert set(verbs(Channel)) == set(verbs(BlockingChannel)) - {"channel"}


@pytest.mark.parametrize(
    "name",
    [name for name in verbs(Context) if callable(getattr(Context, name)) and name not in OWN_PARAMETERS],
)
def test_the_verbs_take_the_same_parameters(name: str):
    assert parameters(getattr(BlockingContext, name)) == parameters(getattr(Context, name))
