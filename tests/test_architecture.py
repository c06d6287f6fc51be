"""The layers are as ARCHITECTURE.md says, and imports go down only."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "grain"

# From the bottom up. Within one layer modules may import each other, but not in a circle.
LAYERS = [
    "constants errors escaping fields config options transforms public_names samplers sharding tracebacks"
    " forks indices elements files sources observe",
    "graph",
    "plan",
    "ops",
    "runtime",
    "streams",
    "explaining",
    "api checkpoint writing",
    "experimental multiprocessing",
    "__init__",
    "python _src command_line",
    "__main__",
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts.split()}


def module_name(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__") if name != "grain.__init__" else name


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


def is_for_type_checkers(statement):
    return isinstance(statement, ast.If) and getattr(statement.test, "id", None) == "TYPE_CHECKING"


def imported_modules(path):
    """The modules of the package that `path` imports, wherever in it, when it is run, or names in a string."""
    tree = ast.parse(path.read_text())
    tree.body = [statement for statement in tree.body if not is_for_type_checkers(statement)]
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names if alias.name.startswith("grain."))
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == "grain":
            assert statement.level == 0
            for alias in statement.names:
                full = f"{statement.module}.{alias.name}"
                yield full if full in MODULES else statement.module if statement.module != "grain" else "grain.__init__"
        elif isinstance(statement, ast.Constant) and statement.value in MODULES:
            yield statement.value


IMPORTS = {name: set(imported_modules(path)) for name, path in MODULES.items()}


def level(module):
    return LEVEL[module.split(".")[1]]


def test_every_module_has_a_layer():
    assert {name.split(".")[1] for name in MODULES} == set(LEVEL)


def test_imports_go_down():
    upward = [(m, i) for m, imports in IMPORTS.items() for i in imports if level(i) > level(m)]
    assert not upward


def test_no_two_modules_share_a_name():
    names = [path.stem for path in MODULES.values() if path.stem != "__init__" and "python" not in path.parts]
    assert sorted(names) == sorted({*names})


def test_files_and_functions_are_short():
    for path in MODULES.values():
        text = path.read_text()
        assert text.count("\n") <= 400, path
        for statement in ast.walk(ast.parse(text)):
            if isinstance(statement, ast.FunctionDef):
                start = statement.body[1 if ast.get_docstring(statement) and len(statement.body) > 1 else 0].lineno
                assert statement.end_lineno - start < 50, f"{path}: {statement.name}"


def test_imports_have_no_cycle():
    done: set[str] = set()

    def visit(module, trail):
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for imported in IMPORTS[module]:
                visit(imported, [*trail, module])
            done.add(module)

    for module in IMPORTS:
        visit(module, [])


def test_architecture_shows_the_tree():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    tree = text.split("```")[1]
    shown = {name.rstrip("/") for name in re.findall(r"[\w]+(?:\.py|/)", tree)} - {"src", "grain", "local", "workers"}
    there = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert shown == there


def test_versions_agree():
    import grain

    assert f'version = "{grain.__version__}"' in (ROOT / "pyproject.toml").read_text()
