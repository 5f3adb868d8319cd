"""Imports point down: every room knows the rooms below it and none above. docs/design.md shows the same list."""

import ast
import re
from pathlib import Path

import bilsh

ROOT = Path(bilsh.__file__).parent
LAYERS = [
    {"errors", "forks", "types", "_native"},
    {"validation", "files"},
    {"theory", "codes", "datasets"},
    {"projections", "descriptors"},
    {"encoders"},
    {"estimates"},
    {"search", "evaluation"},
    {"store"},
    {"engines"},
    {"workflows"},
    {"distributed", "viewer"},
    {"experiments", "benchmark"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}


def modules():
    return {
        ".".join(("bilsh", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
    }


def imports(path):
    """Modules a file imports when it runs, inside functions too; not those that only type checkers read."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph():
    known = modules()
    found = {}
    for name, path in known.items():
        found[name] = set()
        for target in imports(path):
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != "bilsh" and target != name:
                found[name].add(target)
    return found


def room(module):
    return module.split(".")[1]


def test_no_import_points_up():
    wrong = [
        f"{name} imports {target}"
        for name, targets in graph().items()
        if name != "bilsh"
        for target in targets
        if RANK[room(target)] > RANK[room(name)]
        or (RANK[room(target)] == RANK[room(name)] and room(target) != room(name))
    ]
    assert not wrong


def test_no_imports_in_a_circle():
    left = graph()
    while ready := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in ready:
            del left[name]
    packages = {name for name in left if modules()[name].name == "__init__.py"}
    assert not left.keys() - packages, f"circle among {sorted(left)}"


def test_the_top_level_is_short_and_modules_are_small():
    top = {path.stem for path in ROOT.glob("*.py")}
    assert top == {"__init__", "errors", "forks", "types", "validation", "files", "codes"}
    long = {name: n for name, path in modules().items() if (n := len(path.read_text().splitlines())) > 400}
    assert not long


def test_children_do_not_look_for_modules_in_the_current_folder():
    for name, path in modules().items():
        text = path.read_text()
        assert text.count("sys.executable") == text.count('[sys.executable, "-P", '), name


def test_types_that_rooms_share_have_one_home():
    shared = ("Floats", "Values", "Progress")
    for name, path in modules().items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Assign):
                named = ast.unparse(node.targets[0])
                assert named not in shared or name == "bilsh.types", f"{name} defines {named} again"
                alias = ast.unparse(node.value)
                assert alias != "Callable[[str, int, int], None]" or name == "bilsh.types", f"{name}: {named}"


def test_every_room_has_its_tests():
    tests = Path(__file__).parent
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert all(list((tests / room).glob("test_*.py")) for room in rooms)


def test_the_design_page_shows_the_tree_and_these_layers():
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text("utf-8")
    block = page.split("```")[1].strip().splitlines()
    assert [set(line.split(", ")) for line in block] == LAYERS
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    for name in rooms:
        assert f"`{name}/`" in page, name
    for name in re.findall(r"`((?:[a-z]+/)*[a-z_]+\.py)`", page):
        assert (ROOT / name).is_file() or (ROOT.parents[1] / name).is_file(), name
