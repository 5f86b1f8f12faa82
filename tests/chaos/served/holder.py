"""A worker of the original protocol that takes work and falls asleep over it: `holder PORT QUEUE`.

It claims the task of one run and an attempt of another, says so, and reports on both when it is told to wake: each
once with the token that it was given and once without. What it is answered is said word for word.
"""

import sys

from tests.api.support import Http, Worker, complete

HOLDS = "holds"
LATE = "late"
REPORTS = 4


def main(port: int, queue: str) -> None:
    """Take, sleep, report."""
    http = Http(port, [])
    worker = Worker(http, queue)
    task, attempt = worker.task(wait_secs=20), worker.activity(wait_secs=20)
    assert task is not None
    assert attempt is not None
    _say(HOLDS)
    sys.stdin.readline()
    for token in ({"task_token": task["task_token"]}, {}):
        _say(LATE, worker.commands(task["workflow_id"], complete("zombie"), **token).status)
    for token in ({"task_token": attempt["task_token"]}, {}):
        _say(LATE, http.post(f"/tasks/{attempt['id']}/complete", {"result": "zombie", **token}).status)


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
