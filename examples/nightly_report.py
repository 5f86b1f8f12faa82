"""A report that is due every night: a fresh id, a scan, and a child workflow for each anomaly that the scan found.

    python -m examples.nightly_report            make one report now
    python -m examples.nightly_report listen     serve reports until Ctrl-C

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file nightly_report.db.
"""

import os
import sys
import uuid
from typing import TypedDict

from assay import Context, workflow


class Anomaly(TypedDict):
    id: str
    kind: str


class Region(TypedDict):
    region: str


class Finding(TypedDict):
    report_id: str
    anomaly: Anomaly


class Report(TypedDict):
    report_id: str
    region: str
    anomalies_handled: int


@workflow.define
async def NightlyReport(ctx: Context, input: Region) -> Report:
    # A side effect is run once and recorded: after a crash the report keeps the id it was given.
    report_id = await ctx.side_effect("issue_report_id", lambda: f"rep-{uuid.uuid4()}")
    anomalies = await ctx.execute_activity(scan_anomalies, input, max_attempts=5)
    for number, anomaly in enumerate(anomalies, 1):
        # The id is the same on every replay, so a child that was started is found again and not started twice.
        await ctx.start_child_workflow(
            HandleAnomaly,
            workflow_id=f"{report_id}-anomaly-{number}",
            input={"report_id": report_id, "anomaly": anomaly},
        )
    return {"report_id": report_id, "region": input["region"], "anomalies_handled": len(anomalies)}


@workflow.define
async def HandleAnomaly(ctx: Context, finding: Finding) -> bool:
    return await ctx.execute_activity(remediate, finding["anomaly"])


@workflow.activity
def scan_anomalies(input: Region) -> list[Anomaly]:
    print(f"scanning {input['region']}")
    return [
        {"id": "a-1", "kind": "stale_lock"},
        {"id": "a-2", "kind": "missing_index"},
        {"id": "a-3", "kind": "orphaned_record"},
    ]


@workflow.activity
def remediate(anomaly: Anomaly) -> bool:
    print(f"handling {anomaly['id']}: {anomaly['kind']}")
    return True


def main() -> None:
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://nightly_report.db"))
    if sys.argv[1:] == ["listen"]:
        workflow.listen()
        return
    report = workflow.run(NightlyReport, {"region": "eu-west-1"})
    print(f"{report['report_id']}: {report['anomalies_handled']} anomalies handled in {report['region']}")


if __name__ == "__main__":
    main()
