"""The repository's Python files, parsed once for the architecture tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "assay"
DYNAMIC_IMPORTS = {"import_module", "__import__"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One source file under the dotted name by which it is imported."""

    name: str
    text: str
    is_package: bool = False

    @property
    def tree(self) -> ast.Module:
        return _parse(self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def inner_name(self) -> str:
        """The name inside the package: `core.events`; empty for the package itself."""
        return self.name.removeprefix(PACKAGE).removeprefix(".")

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and full dotted name of everything imported, wherever it stands and also by `import_module`."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from ((node.lineno, alias.name) for alias in names)
                case ast.ImportFrom(names=names):
                    origin = self._origin(node)
                    yield from ((node.lineno, f"{origin}.{alias.name}") for alias in names)
                case ast.Call(args=[ast.Constant(value=str(name)), *_]) if called_name(node) in DYNAMIC_IMPORTS:
                    yield node.lineno, name

    def functions(self) -> Iterator[FunctionNode]:
        return (node for node in ast.walk(self.tree) if isinstance(node, FunctionNode))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        climbed = node.level - 1 if self.is_package else node.level
        parents = self.name.split(".")
        origin = parents[: len(parents) - climbed]
        return ".".join([*origin, node.module] if node.module else origin)


def called_name(call: ast.Call) -> str:
    """The last part of what is called: `now` for `datetime.datetime.now()`."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def within(name: str, package: str) -> bool:
    """Whether a dotted name is `package` or lies inside it."""
    return name == package or name.startswith(f"{package}.")


@cache
def source_modules() -> tuple[Module, ...]:
    return tuple(_modules(ROOT / "src", ROOT / "src"))


@cache
def simulation_modules() -> tuple[Module, ...]:
    return tuple(_modules(ROOT / "simulation", ROOT))


@cache
def modules_of_tests() -> tuple[Module, ...]:
    return tuple(_modules(ROOT / "tests", ROOT))


def _modules(folder: Path, root: Path) -> Iterator[Module]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name, path.read_text(encoding="utf-8"), is_package)


@cache
def _parse(text: str) -> ast.Module:
    return ast.parse(text)
