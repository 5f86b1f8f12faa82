"""Signed-in browsers as HTTP sees them, on an engine that demands keys."""

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.api.support import Http, Reply, Server

WITHIN_SECONDS = 5
"""The longest time after which every engine knows that a session or a key has ended."""


class Browser:
    """Requests as a page of the engine makes them: with the cookie, its origin and the session's token."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.cookie = ""
        self.csrf = ""

    def sign_in(self, key: str) -> Reply:
        reply = self.send("POST", "/session", {"api_key": key})
        if reply.status == 200:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
            self.csrf = reply.json()["csrf"]
        return reply

    def send(self, method: str, path: str, body: Any = None, **headers: str | None) -> Reply:
        sent: dict[str, str | None] = {
            "Cookie": self.cookie,
            "Origin": f"http://127.0.0.1:{self.http.port}",
            "X-WF-CSRF": self.csrf,
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.http.send(method, path, body, **{name: value for name, value in sent.items() if value})

    def session(self) -> dict[str, Any]:
        found: dict[str, Any] = self.send("GET", "/session").json()
        return found


class Keyed:
    """An engine that demands keys, and an admin."""

    def __init__(self, server: Server, admin: str | None = None) -> None:
        self.http = server.http()
        self.admin = admin or str(self.http.post("/api-keys", {"label": "admin"}).json()["plaintext"])

    def call(self, method: str, path: str, body: Any = None) -> Reply:
        return self.http.send(method, path, body, Authorization=f"Bearer {self.admin}")

    def make(self, **fields: Any) -> dict[str, str]:
        made = self.call("POST", "/api-keys", fields)
        assert made.status == 201, made
        found: dict[str, str] = made.json()
        return found

    def browser(self, key: str | None = None) -> Browser:
        browser = Browser(self.http)
        assert browser.sign_in(key or self.admin).status == 200
        return browser


@contextmanager
def stream_of(browser: Browser, query: str = "", **headers: str) -> Iterator[http.client.HTTPResponse]:
    """An open event stream, by the cookie unless other headers are given."""
    connection = http.client.HTTPConnection("127.0.0.1", browser.http.port, timeout=WITHIN_SECONDS + 5)
    connection.request("GET", f"/api/v1/events/stream{query}", headers=headers or {"Cookie": browser.cookie})
    with closing(connection), connection.getresponse() as stream:
        yield stream
