"""What all tests share: signals as a terminal would have them, and the browser."""

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.site import Site

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell starts background jobs deaf to Ctrl-C, and programs that tests start would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the browser tests out where `ASSAY_TEST_BROWSER=no`."""
    marked = [item for item in items if item.get_closest_marker("browser") is not None]
    if marked:
        from tests.browser.chromium import LEFT_OUT, is_left_out

        for item in marked if is_left_out() else []:
            item.add_marker(pytest.mark.skip(reason=LEFT_OUT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end that the browser tests were left out."""
    from tests.browser.chromium import LEFT_OUT, is_left_out

    if is_left_out():
        terminalreporter.write_line(LEFT_OUT, yellow=True)


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """Chromium for all tests of a file. `asyncio.run` is refused in tests that use it: they take plain HTTP."""
    from tests.browser.chromium import launched

    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory, chromium: "Browser") -> "Iterator[Site]":
    """An engine without authentication, and Chromium, for all tests of a file."""
    from tests.browser.site import site

    with site(tmp_path_factory.mktemp("site"), chromium) as made:
        yield made
