"""Find Chromium for the browser tests, install it where `make test` may, and launch it.

`python -m tests.browser.chromium` prepares a machine: on Debian, as root, it installs the package `chromium`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

PATH_VARIABLE = "ASSAY_CHROMIUM"
SWITCH_VARIABLE = "ASSAY_TEST_BROWSER"
COMMANDS = ("chromium", "google-chrome")
MISSING = (
    f"no Chromium was found for the browser tests: install chromium or google-chrome, set {PATH_VARIABLE} to its path, "
    f"or leave these tests out with {SWITCH_VARIABLE}=no"
)
LEFT_OUT = f"browser tests were left out: {SWITCH_VARIABLE}=no"
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def is_left_out(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the browser tests are switched off."""
    return environment.get(SWITCH_VARIABLE, "").lower() == "no"


def path_of_chromium(environment: Mapping[str, str] = os.environ) -> str | None:
    """The browser to test with; a path that was given and is wrong is not replaced by another browser."""
    given = environment.get(PATH_VARIABLE)
    if given:
        return shutil.which(given)
    path = environment.get("PATH")
    return next((found for name in COMMANDS if (found := shutil.which(name, path=path))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """Chromium without a window, with a profile of its own.

    While it runs, this thread has a running event loop: `asyncio.run` is refused until the block ends.
    """
    path = path_of_chromium()
    assert path is not None, MISSING
    arguments = [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def install() -> None:
    """Install Chromium where that needs no question: as root on Debian."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)  # noqa: S603


def prepare() -> None:
    """See the module; a machine without a browser is reported, and the browser tests fail there."""
    if is_left_out() or path_of_chromium() is not None:
        return
    if os.environ.get(PATH_VARIABLE) is None and os.geteuid() == 0 and Path("/etc/debian_version").exists():
        sys.stderr.write("installing chromium by apt for the browser tests ...\n")
        install()
    if path_of_chromium() is None:
        sys.stderr.write(f"{MISSING}\n")


if __name__ == "__main__":
    prepare()
