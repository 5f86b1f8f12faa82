"""Rows of failure groups: one row for each group, and one for each run in it."""

from collections.abc import Iterator, Sequence

from assay.core.model.ids import Time
from assay.core.model.run import Run
from assay.core.rules.failure_groups import OPEN, FailureFacts
from assay.storage.sql import tables as t
from assay.storage.sql.dialect import Verb
from assay.storage.sql.rows import Cells
from assay.storage.sql.tables import Table


def steps(failures: Sequence[tuple[Run, FailureFacts, Time]]) -> Iterator[tuple[Verb, Table, Sequence[Cells]]]:
    """Yield the writes of failures; groups in the order of their keys, so that engines never wait for each other."""
    groups: dict[tuple[str, str], Cells] = {}
    runs: dict[tuple[str, str], Cells] = {}
    for run, facts, time in failures:
        key = (run.namespace, facts.fingerprint)
        groups.setdefault(
            key,
            (
                *key,
                facts.source,
                facts.workflow_type,
                facts.where,
                facts.kind,
                facts.type,
                _storable(facts.message),
                time,
                OPEN,
            ),
        )
        runs.setdefault(
            (run.run_id, facts.fingerprint), (run.run_id, facts.fingerprint, run.namespace, facts.source, time)
        )
    yield Verb.KEEP, t.FAILURE_GROUPS, [groups[key] for key in sorted(groups)]
    yield Verb.KEEP, t.FAILED_RUNS, [runs[key] for key in sorted(runs)]


def _storable(text: str) -> str:
    """Return a text without characters that a database refuses."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
