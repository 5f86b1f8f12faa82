"""The dashboard as a person sees it: names of controls, and runs driven by hand behind it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

from tests.api.support import Http, Worker, fresh, until
from tests.browser.site import Site

WAIT_MS = 5_000
expect.set_options(timeout=WAIT_MS)

CAUSES = {
    "kind": "INTERNAL",
    "type": "CardDeclined",
    "message": "insufficient funds",
    "stack": 'Traceback (most recent call last):\n  File "/srv/shop/pay.py", line 41, in charge\n    client.post()\n'
    '  File "/usr/lib/python3.12/site-packages/http/client.py", line 88, in post\n    raise HTTPError\nHTTPError: 402',
    "cause": {"kind": "UNAVAILABLE", "type": "HTTPError", "message": "402 payment required"},
}
"""A failure with a cause and a traceback, as a worker reports it."""


class Board:
    """A page of the dashboard, in a namespace of its own."""

    def __init__(self, site: Site, page: Page) -> None:
        self.site = site
        self.page = page
        self.http: Http = site.http()
        self.namespace = fresh("ns")
        self.troubles: list[str] = []
        self.expected: list[str] = []
        """Parts of messages of the browser that a test causes on purpose."""
        self.requests: list[Request] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("request", self._requested)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")

    def _requested(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((self.site.url, "data:", "blob:")):
            self.troubles.append(f"request to another origin: {request.url}")

    def remaining_troubles(self) -> list[str]:
        return [text for text in self.troubles if not any(part in text for part in self.expected)]

    # addresses

    def open(self, path: str = "", **query: str) -> "Board":
        """Open a view in the test's namespace, and wait for its data."""
        parameters = "&".join(
            f"{name}={quote(value, safe='')}" for name, value in {"ns": self.namespace, **query}.items()
        )
        self.page.goto(f"{self.site.url}/workflow/{path}?{parameters}")
        return self.ready()

    def open_run(self, workflow_id: str, **query: str) -> "Board":
        return self.open(f"workflows/{quote(workflow_id, safe='')}", **query)

    def ready(self) -> "Board":
        expect(self.page.locator("main")).to_have_attribute("data-state", re.compile("ready|empty"))
        return self

    def query(self, name: str) -> str | None:
        """A parameter of the address."""
        found: str | None = self.page.evaluate("name => new URL(location.href).searchParams.get(name)", name)
        return found

    # parts

    def row(self, workflow_id: str) -> Locator:
        return self.page.locator(f'tr[data-testid=run-row][data-id="{workflow_id}"]')

    def rows(self) -> list[str]:
        found: list[str] = self.page.locator("tr[data-testid=run-row]").evaluate_all(
            "rows => rows.map(r => r.dataset.id)"
        )
        return found

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def tab(self, name: str) -> Locator:
        return self.page.get_by_role("tab", name=name, exact=True)

    def dialog(self, name: str) -> Locator:
        return self.page.get_by_role("dialog", name=name, exact=True)

    @property
    def why(self) -> Locator:
        return self.page.get_by_test_id("why")

    @property
    def status(self) -> Locator:
        return self.page.get_by_test_id("status")

    # the engine behind it

    def start(self, workflow_id: str, **fields: Any) -> dict[str, Any]:
        return self.http.start(workflow_id, namespace=self.namespace, **fields)

    def describe(self, workflow_id: str) -> dict[str, Any]:
        return self.http.describe(workflow_id, namespace=self.namespace)

    def kinds(self, workflow_id: str) -> list[str]:
        return self.http.kinds(workflow_id, namespace=self.namespace)

    def worker(self, queue: str = "default", **fields: Any) -> Worker:
        return Worker(self.http, queue, namespace=self.namespace, **fields)

    def running(self, workflow_id: str, *commands: dict[str, Any], **fields: Any) -> Worker:
        """Start a run on a queue of its own, and answer its first task."""
        worker = self.worker(fresh("queue"))
        self.start(workflow_id, task_queue=worker.queue, **fields)
        worker.turn(workflow_id, *commands)
        return worker

    def closes(self, workflow_id: str) -> None:
        until(lambda: self.describe(workflow_id)["completed_at"] is not None)


@contextmanager
def visiting(site: Site, **options: Any) -> Iterator[Board]:
    """A visitor with a fresh browser profile."""
    with site.visitor(viewport={"width": 1400, "height": 900}, **options) as context:
        board = Board(site, context.new_page())
        yield board
        assert board.remaining_troubles() == [], board.remaining_troubles()


def snapshot(**queries: Any) -> dict[str, Any]:
    """Results of queries, as a worker records them."""
    return {"type": "RecordSnapshot", "state": queries}


def wait_for(signal: str, **fields: Any) -> dict[str, Any]:
    return {"type": "WaitForSignal", "name": signal, **fields}


def timer(seconds: float, seq: int = 1) -> dict[str, Any]:
    return {"type": "ScheduleTimer", "seq": seq, "duration_secs": seconds}


def child(workflow_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "StartChildWorkflow", "workflow_type": "Child", "workflow_id": workflow_id, **fields}


def fail(error: str, **fields: Any) -> dict[str, Any]:
    return {"type": "FailWorkflow", "error": error, **fields}
