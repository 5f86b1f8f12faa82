"""Ids of namespaces, workflows, runs and workers, and the port that generates new ids."""

import hashlib
from typing import NewType, Protocol

import msgspec

from assay.core.model.duration import SECOND as SECOND

Namespace = NewType("Namespace", str)
WorkflowId = NewType("WorkflowId", str)
RunId = NewType("RunId", str)
Queue = NewType("Queue", str)
WorkerId = NewType("WorkerId", str)
Seq = NewType("Seq", int)
"""Position of an event in its run's history: dense from 1 (I4)."""

Time = int
"""Microseconds since the Unix epoch, UTC. Integers, so that equal inputs give equal decisions on every machine."""


class RunKey(msgspec.Struct, frozen=True, gc=False):
    """The full identity of a run. A workflow id names a chain of runs, of which at most one is open (I15)."""

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId


class Ids(Protocol):
    """The port that gives decisions new ids; injected, so that a simulation can repeat a sequence of ids."""

    def run_id(self) -> RunId:
        """Return a new run id."""
        ...

    def number(self) -> int:
        """Return a new number n of the sequence of activities and attempts; n + 1 is new as well.

        An activity takes n and its first attempt n + 1: scheduling needs one call.
        """
        ...


def id_of_request(namespace: str, request_id: str) -> WorkflowId:
    """Return the workflow id for a start without an id: a repeated start gets the same id (I15)."""
    return WorkflowId(f"wf-{hashlib.sha256(f'{namespace}/{request_id}'.encode()).hexdigest()[:24]}")


def seconds(time: Time) -> float:
    """Return a time in seconds as a float, the form of the API."""
    return time / SECOND
