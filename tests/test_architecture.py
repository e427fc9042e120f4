"""The rules of docs/design.md that a machine can check."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "kinetree").rglob("*.py"))
TEXTS = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md"}
)

# A module may import from its own row's package and from the rows above. Members of one row do not know each other.
# Single modules at the top of the package have rows of their own; a module that is in no row is an error.
# "kinetree" stands for the public names: only what is below that row may use them.
ORDER = (
    ("_version", "_unknown", "_types", "_arrays", "_varying"),
    ("spatial",),
    ("tree",),
    ("lanes",),
    ("collide",),  # contact points of two shapes
    ("model",),
    ("arguments",),  # shapes, types and batch axes of what the public functions are given
    ("dynamics",),
    ("actuate",),  # forces of actuators
    ("constrain",),  # contact, limits and friction, and what they make of forces
    ("sense",),  # sensors
    ("io",),
    ("simulate",),
    ("envs",),  # tasks for robots that learn
    ("learn",),  # how they learn
    ("theory",),  # operation counts and depths that the algorithms are compared with
    ("kinetree",),
    ("view",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(ORDER) for name in row}

MAX_LINES = 400
# Loops in Python over the bodies of a model belong to these rooms, to what shows a model to people, and to their names.
LOOPS_OVER_BODIES = (
    "tree/",
    "lanes/",
    "view/",
    "cli/",
    "dynamics/schedules/",
    "model/structure.py",
    "model/describe.py",
)
BODIES = re.compile(
    r"\brange\((?:[^()]*\W)?(?:\w+\.)*(?:n_bodies|n_rows|nv|nq|tree\.n|n_shapes)\)"
    r"|\b(?:model|structure|tree)\.(?:\w+\.)*(?:parent|depth|joint_code|row_of_body)\b"
)
TUPLE_METHODS = {"_replace", "_fields", "_asdict", "_make"}  # public, in spite of their names
OURSELVES = {"self", "cls"}
FOREIGN = {"_ARRAY_API"}  # NumPy's
# A loop of a lane program and a rigid loop; the reports of a file and of learning. Users know them by these names.
PUBLIC_DOUBLES = {"Loop", "Report"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|tmp|Users)/")


def room(dotted: str) -> str:
    """Which row a dotted module is in: `kinetree.tree.scan` in `tree`; `kinetree` and `kinetree.load` in `kinetree`."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "kinetree"


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that is imported from kinetree, inside functions too. `package` resolves the dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{source}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "kinetree")


def faults(source: str, path: str) -> list[str]:
    """What is wrong with a source file; `path` is relative to src, as in kinetree/tree/scan.py."""
    parts = path.removesuffix(".py").split("/")
    package = ".".join(parts[:-1])
    own = parts[1]
    tree = ast.parse(source)
    found = []
    if ast.get_docstring(tree) is None:
        found.append(f"{path}: no module docstring")
    if (lines := len(source.splitlines())) > MAX_LINES:
        found.append(f"{path}: {lines} lines, the limit is {MAX_LINES}")
    if own == "__init__":  # gathers the public names from everywhere
        return found
    if own not in RANK:
        return [*found, f"{path}: {own} has no row in ORDER"]
    for line, name in imports(tree, package):
        target = room(name)
        if target != own and RANK[target] >= RANK[own]:
            found.append(f"{path}:{line}: {own} may not import {name}")
    return found


def private(name: str) -> bool:
    """Whether a name is its module's own."""
    return name.startswith("_") and not name.startswith("__") and name not in TUPLE_METHODS


def named_in(tree: ast.AST) -> set[str]:
    """Names of functions, classes, variables and attributes that a file defines."""
    names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
    return names


def reaches(source: str, path: str) -> list[str]:
    """Places that use what belongs to another module, import by a string, or loop over bodies where they should not."""
    package, found = ".".join(path.split("/")[:-1]), []
    tree = ast.parse(source)
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            ours = node.level or (node.module or "").split(".")[0] == "kinetree"
            from_top = ".".join([*base, *([node.module] if node.module else [])]) == "kinetree"
            modules |= {alias.asname or alias.name for alias in node.names if ours}
            found += [
                f"{path}:{node.lineno}: {alias.name} is private"
                for alias in node.names
                if ours and private(alias.name) and not from_top
            ]
        elif isinstance(node, ast.Attribute) and private(node.attr) and ast.unparse(node.value) not in OURSELVES:
            of_module = isinstance(node.value, ast.Name) and node.value.id in modules
            if of_module or (node.attr not in named_in(tree) and node.attr not in FOREIGN):
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)} is private")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if "kinetree" in ast.unparse(node) or "__package__" in ast.unparse(node):
                found.append(f"{path}:{node.lineno}: a module of ours is imported by a string")
        elif isinstance(node, ast.For | ast.comprehension):
            over, allowed = ast.unparse(node.iter), tuple(f"kinetree/{place}" for place in LOOPS_OVER_BODIES)
            if BODIES.search(over) and not path.startswith(allowed):
                found.append(f"{path}:{node.iter.lineno}: a loop over bodies: {over}")
    return found


def cycles(sources: dict[str, str]) -> list[list[str]]:
    """Groups of modules that import each other, directly or not; imports inside functions count."""
    modules = {path.removesuffix(".py").replace("/", "."): text for path, text in sources.items()}
    modules.pop("kinetree.__init__", None)  # it gathers the public names, and brings `view` when it is asked for
    graph = {}
    for module, text in modules.items():
        tree = ast.parse(text)
        for node in ast.walk(tree):  # what only a type checker sees is no import
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = []
        wanted = set()
        for _, name in imports(tree, module.rsplit(".", 1)[0]):
            places = (name, f"{name}.__init__", name.rsplit(".", 1)[0], f"{name.rsplit('.', 1)[0]}.__init__")
            wanted.add(next((place for place in places if place in modules), module))
        graph[module] = wanted - {module}
    while leaves := [module for module, wanted in graph.items() if not wanted & graph.keys()]:
        for module in leaves:
            del graph[module]
    while tops := [module for module in graph if not any(module in wanted for wanted in graph.values())]:
        for module in tops:
            del graph[module]
    return [sorted(graph)] if graph else []


def doubles(sources: dict[str, str]) -> dict[str, list[str]]:
    """Classes of the same name in several modules. Names with an underscore are their module's own."""
    found: dict[str, list[str]] = {}
    for path, text in sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return {name: places for name, places in found.items() if len(places) > 1}


def machine_paths(text: str, path: str) -> list[str]:
    """Places where a text names a folder of somebody's machine."""
    return [f"{path}:{n}: {line.strip()}" for n, line in enumerate(text.splitlines(), 1) if MACHINE_PATH.search(line)]


def test_sources_keep_the_rules():
    assert SOURCES
    found = [f for p in SOURCES for f in faults(p.read_text("utf-8"), p.relative_to(ROOT / "src").as_posix())]
    assert not found, "\n" + "\n".join(found)


def test_modules_leave_each_other_alone():
    found = [f for p in SOURCES for f in reaches(p.read_text("utf-8"), p.relative_to(ROOT / "src").as_posix())]
    assert not found, "\n" + "\n".join(found)


def test_no_modules_import_each_other():
    assert cycles({p.relative_to(ROOT / "src").as_posix(): p.read_text("utf-8") for p in SOURCES}) == []


def test_a_class_has_a_name_of_its_own():
    found = doubles({p.relative_to(ROOT / "src").as_posix(): p.read_text("utf-8") for p in SOURCES})
    assert set(found) <= PUBLIC_DOUBLES, found
    assert doubles({"a.py": "class A: ...\nclass B: ...", "b.py": "class A: ..."}) == {"A": ["a.py", "b.py"]}


def test_reaches_and_cycles_are_found():
    path = "kinetree/simulate/run.py"
    assert "private" in reaches("from kinetree.constrain.newton import _step", path)[0]
    assert "private" in reaches("from . import advance\nadvance._hidden()", path)[0]
    assert "private" in reaches("def f(model):\n    return model._hidden()", path)[0]
    assert reaches("class A:\n    def _own(self): ...\ndef f(a):\n    return a._own()", path) == []
    assert "string" in reaches("import_module('kinetree.lanes')", path)[0]
    assert "loop" in reaches("for i in range(model.n_bodies):\n    pass", path)[0]
    assert "loop" in reaches("x = [f(i) for i in range(1, self.model.tree.n)]", path)[0]
    assert "loop" in reaches("for i, p in enumerate(model.parent):\n    pass", path)[0]
    assert "loop" in reaches("for p in np.asarray(structure.tree.parent).tolist():\n    pass", path)[0]
    assert "string" in reaches("importlib.import_module(f'{__package__}.advance')", path)[0]
    assert "private" in reaches("from ..lanes.cpu import compiled\ncompiled._pool", path)[0]
    assert reaches("for i in range(model.n_bodies):\n    pass", "kinetree/tree/topology.py") == []
    assert reaches("from .state import State\nState(1)._replace(q=2)", path) == []
    a, b, c = (f"kinetree/tree/{name}.py" for name in "abc")
    assert cycles({a: "from .b import x", b: "def f():\n    from .c import y", c: "from . import a"}) == [
        ["kinetree.tree.a", "kinetree.tree.b", "kinetree.tree.c"]
    ]
    assert cycles({a: "from .b import x", b: "from .c import y", c: ""}) == []


def test_no_file_names_a_machine_path():
    found = [f for p in TEXTS for f in machine_paths(p.read_text("utf-8"), p.relative_to(ROOT).as_posix())]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("kinetree/spatial/vec3.py", "from kinetree.tree import scan"),
        ("kinetree/spatial/vec3.py", "import kinetree.dynamics.rnea"),
        ("kinetree/tree/scan.py", "from kinetree import model"),
        ("kinetree/tree/scan.py", "from ..lanes import program"),
        ("kinetree/tree/__init__.py", "from .. import lanes"),
        ("kinetree/dynamics/rnea.py", "def f():\n    from kinetree import load"),
        ("kinetree/dynamics/rnea.py", "import kinetree as kt"),
        ("kinetree/view/plot.py", "from kinetree.cli.app import app"),
        ("kinetree/_version.py", "from kinetree.spatial import Vec3"),
    ],
)
def test_imports_against_the_order_are_found(path, statement):
    (fault,) = faults(f'"""A docstring."""\n{statement}\n', path)
    assert "may not import" in fault


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("kinetree/dynamics/rnea.py", "from kinetree.lanes import program"),
        ("kinetree/dynamics/rnea.py", "from .passes import outward"),
        ("kinetree/dynamics/__init__.py", "from ..model import Model"),
        ("kinetree/tree/scan.py", "import jax.numpy as jnp"),
        ("kinetree/cli/app.py", "import kinetree as kt"),
        ("kinetree/__init__.py", "from kinetree.cli import main"),
    ],
)
def test_imports_along_the_order_pass(path, statement):
    assert faults(f'"""A docstring."""\n{statement}\n', path) == []


def test_other_faults_are_found():
    assert faults("x = 1\n", "kinetree/tree/scan.py") == ["kinetree/tree/scan.py: no module docstring"]
    assert "401 lines" in faults('"""A docstring."""\n' + 400 * "x = 1\n", "kinetree/tree/scan.py")[0]
    assert faults('"""A docstring."""\n', "kinetree/stray.py") == ["kinetree/stray.py: stray has no row in ORDER"]
    bad = "open('" + "/".join(["", "work", "model.urdf"]) + "')"
    assert machine_paths(f"x = 1\n{bad}\n", "a.py") == [f"a.py:2: {bad}"]
    relative = "/".join(["the parent", "root", "child of https:", "", "example.org", "home", "page"])
    assert machine_paths(relative, "a.py") == []
