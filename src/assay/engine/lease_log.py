"""Log lines about expired leases."""

import logging

from assay.engine.commit.committer import Committed

log = logging.getLogger("assay.engine")
LEASE = "lease"
"""The outcome of an attempt with an expired lease."""


def log_lost_leases(committed: Committed) -> None:
    """Log the leases that a commit has ended because their workers did not extend them in time."""
    for end in committed.attempts:
        if end.outcome == LEASE:
            log.warning(
                "worker %s did not extend its lease: attempt %d of activity %s of workflow %s counts as failed",
                end.activity.worker,
                end.activity.attempt,
                end.activity.name,
                end.run.workflow_id,
                extra={"workflow_id": end.run.workflow_id, "run_id": end.run.run_id},
            )
    for run, worker in committed.tally.expired:
        log.warning(
            "worker %s did not extend its lease: the workflow task of %s goes to another worker",
            worker,
            run.workflow_id,
            extra={"workflow_id": run.workflow_id, "run_id": run.run_id},
        )
