import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser import chromium, node


def command(folder: Path, name: str) -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_path_that_is_given_wins_and_is_never_replaced(tmp_path: Path):
    found, other = command(tmp_path, "chromium"), command(tmp_path, "own")
    assert chromium.path_of_chromium({"PATH": str(tmp_path)}) == found
    assert chromium.path_of_chromium({"PATH": str(tmp_path), "ASSAY_CHROMIUM": other}) == other
    assert chromium.path_of_chromium({"PATH": str(tmp_path), "ASSAY_CHROMIUM": str(tmp_path / "gone")}) is None


def test_chrome_is_taken_where_chromium_is_missing(tmp_path: Path):
    assert chromium.path_of_chromium({"PATH": str(tmp_path)}) is None
    found = command(tmp_path, "google-chrome")
    assert chromium.path_of_chromium({"PATH": str(tmp_path)}) == found


def test_without_a_browser_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ASSAY_CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(AssertionError, match="no Chromium was found for the browser tests"), chromium.launched():
        pass


def test_an_installation_is_tried_as_root_on_debian_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ASSAY_CHROMIUM", raising=False)
    monkeypatch.delenv("ASSAY_TEST_BROWSER", raising=False)
    tried: list[str] = []
    monkeypatch.setattr(chromium, "install", lambda: tried.append("apt"))
    monkeypatch.setattr(chromium, "path_of_chromium", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chromium.prepare()
    assert tried == []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "exists", lambda path: path == Path("/etc/debian_version"))
    chromium.prepare()
    assert tried == ["apt"]
    monkeypatch.setenv("ASSAY_TEST_BROWSER", "no")
    chromium.prepare()
    assert tried == ["apt"]


def test_node_of_a_package_is_taken_where_npm_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(node.shutil, "which", lambda _name: None)
    monkeypatch.setattr(node, "folder_of_package", lambda: tmp_path)
    assert node.node() == [f"{tmp_path}/bin/node"]
    assert node.npm() == [f"{tmp_path}/bin/node", f"{tmp_path}/lib/node_modules/npm/bin/npm-cli.js"]
    assert node.environment()["PATH"].startswith(f"{tmp_path}/bin{os.pathsep}")
    monkeypatch.setattr(node, "folder_of_package", lambda: None)
    with pytest.raises(AssertionError, match="npm was not found"):
        node.npm()


@pytest.mark.browser
def test_a_browser_opens_the_engine(page: Page):
    answer = page.goto("/api/v1/health")
    assert answer is not None
    assert answer.status == 200
    assert page.evaluate("fetch('/api/v1/version').then(answer => answer.status)") == 200
