"""Log lines about work that is taken from workers which fell silent."""

import logging

from assay.engine.commit.committer import Committed

log = logging.getLogger("assay.engine")
LEASE = "lease"
"""The outcome of an attempt whose lease ran out."""


def log_lost_leases(committed: Committed) -> None:
    """Log the leases that a commit has ended because their workers did not extend them."""
    for end in committed.attempts:
        if end.outcome == LEASE:
            log.warning(
                "worker %s is silent: attempt %d of activity %s of workflow %s is lost and goes out again",
                end.activity.worker,
                end.activity.attempt,
                end.activity.name,
                end.run.workflow_id,
                extra={"workflow_id": end.run.workflow_id, "run_id": end.run.run_id},
            )
    for run, worker in committed.tally.expired:
        log.warning(
            "worker %s is silent: the workflow task of %s goes to another worker",
            worker,
            run.workflow_id,
            extra={"workflow_id": run.workflow_id, "run_id": run.run_id},
        )
