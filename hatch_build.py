"""The build hook of the package: wheels, sdists and editable installs get the dashboard and the API docs' viewer."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _dashboard() -> ModuleType | None:
    """Return the build script; a source tree without `dashboard/` has none."""
    path = Path(__file__).resolve().parent / "dashboard" / "build.py"
    spec = importlib.util.spec_from_file_location("assay_dashboard_build", path)
    if not path.is_file() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DashboardHook(BuildHookInterface[Any]):
    """Builds the dashboard before the files of a package are collected."""

    def dependencies(self) -> list[str]:
        """Return Node.js as a Python package where npm is missing and a build is due."""
        build = _dashboard()
        return [build.NODE_PACKAGE] if build is not None and build.needs_node_package() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is missing; without Node.js go on with a warning, unless the dashboard is required."""
        build = _dashboard()
        if build is None:
            return
        try:
            build.ensure_built()
        except build.NotBuilt as problem:
            if os.environ.get(build.MODE) == "require":
                raise
            self.app.display_warning(f"The dashboard was not built: {problem}\n{build.REMEDY}")
