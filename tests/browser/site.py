"""An engine and a browser that visits it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext

from tests.api.support import Http, Server, serving


class Site:
    """`assay serve` in a process of its own, and Chromium."""

    def __init__(self, server: Server, chromium: Browser) -> None:
        self.server = server
        self.chromium = chromium
        self.url = f"http://127.0.0.1:{server.port}"

    def http(self) -> Http:
        """Plain HTTP beside the browser."""
        return self.server.http()

    @contextmanager
    def visitor(self, **options: object) -> Iterator[BrowserContext]:
        """A browser of its own: no cookies, no storage, no cache. Paths are relative to the engine."""
        context = self.chromium.new_context(base_url=self.url, **options)  # type: ignore[arg-type]
        try:
            yield context
        finally:
            context.close()


@contextmanager
def site(folder: Path, chromium: Browser, *arguments: str, **environment: str) -> Iterator[Site]:
    """An engine with these flags and variables for the time of the block."""
    with serving(folder, *arguments, **environment) as server:
        yield Site(server, chromium)
