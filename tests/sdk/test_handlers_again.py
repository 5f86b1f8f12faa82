"""Handlers that are registered a second time: replaced where code is loaded anew, refused where it is a mistake."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from assay import App
from assay.core.model.errors import Invalid

CELL = "@app.workflow\nasync def Hi(ctx, name): return {text!r}"


def cell(names: dict[str, object], number: int, text: str) -> None:
    exec(compile(CELL.format(text=text), f"<cell {number}>", "exec"), names)  # noqa: S102 - a notebook does just this


def test_a_cell_that_is_run_again_replaces_its_workflow():
    app = App()
    names: dict[str, object] = {"app": app, "__name__": "__main__"}
    for number, text in enumerate(("hi", "HI")):
        cell(names, number, text)
    assert app.workflows["Hi"].function is names["Hi"]


def test_a_cell_does_not_replace_the_workflow_of_another_module():
    app = App()
    cell({"app": app, "__name__": "shop"}, 0, "hi")
    with pytest.raises(Invalid, match="registered twice"):
        cell({"app": app, "__name__": "bank"}, 1, "HI")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module of a file with one workflow, and an app that outlives its reloads."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kept_app.py").write_text("from assay import App\napp = App()\n")
    (tmp_path / "shop_flows.py").write_text("from kept_app import app\n@app.workflow\nasync def Buy(ctx): return 1\n")
    for name in ("kept_app", "shop_flows"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("shop_flows")
    yield module
    for name in ("kept_app", "shop_flows"):
        sys.modules.pop(name, None)


def test_a_module_that_is_loaded_again_replaces_its_workflow(shop: ModuleType):
    before = shop.Buy
    path = Path(str(shop.__file__))
    path.write_text("from kept_app import app\n\n\n@app.workflow\nasync def Buy(ctx): return 22\n")
    importlib.invalidate_caches()
    importlib.reload(shop)
    assert shop.Buy is not before
    assert shop.app.workflows["Buy"].function is shop.Buy


def test_two_functions_of_one_name_in_one_file_are_refused_with_both_lines(shop: ModuleType):
    path = Path(str(shop.__file__))
    two = "@app.workflow\nasync def Pay(ctx): return {}\n"
    path.write_text("from kept_app import app\n" + two.format(1) + "\n" + two.format(2))
    importlib.invalidate_caches()
    with pytest.raises(Invalid) as caught:
        importlib.reload(shop)
    assert caught.value.code == "duplicate_handler"
    assert f"{path}:2" in caught.value.message
    assert f"{path}:5" in caught.value.message


def test_a_function_that_is_made_twice_by_the_same_code_replaces_itself():
    app = App()

    def make() -> None:
        @app.workflow
        async def Made(ctx: object) -> int:
            return 1

    make()
    make()
    assert list(app.workflows) == ["Made"]
