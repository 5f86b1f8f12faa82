"""The built dashboard, for tests that serve it."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "dashboard"


@cache
def build_script() -> ModuleType:
    """Return `dashboard/build.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("dashboard_build", SOURCES / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
