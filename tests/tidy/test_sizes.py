"""House rules that only hold because something checks them. Limits may be lowered, never raised."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
REAL_PROCESSES = ROOT / "tests" / "kubernetes"  # whose start and end can only be polled, with a deadline
MODULE_LINES = 800
TEST_FILE_LINES = 600
FUNCTION_LINES = 80
LISTED = 10


def functions(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(function):
    """Lines of code, the docstring aside."""
    body = function.body
    has_docstring = ast.get_docstring(function) is not None
    first = body[1] if has_docstring and len(body) > 1 else body[0]
    return function.end_lineno - first.lineno + 2


def lines(path):
    return len(path.read_text().splitlines())


def name(path):
    return str(path.relative_to(ROOT))


def test_no_module_holds_two_ideas(capsys):
    largest = sorted(((lines(path), name(path)) for path in SOURCES), reverse=True)[:LISTED]
    with capsys.disabled():
        print("\nThe largest modules:", *(f"{size:5} {path}" for size, path in largest), sep="\n")
    assert [path for size, path in largest if size > MODULE_LINES] == []


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_a_test_file_fits_in_one_sitting(path):
    assert lines(path) <= TEST_FILE_LINES


def test_no_function_is_longer_than_a_screen(capsys):
    sized = [(length(node), f"{name(path)} {node.name}") for path in SOURCES for node in functions(path)]
    largest = sorted(sized, reverse=True)[:LISTED]
    with capsys.disabled():
        print("\nThe largest functions:", *(f"{size:5} {where}" for size, where in largest), sep="\n")
    assert [where for size, where in largest if size > FUNCTION_LINES] == []


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_every_module_says_what_it_promises(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "a module begins with a docstring"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_package_is_named_for_nothing(path):
    assert path.stem not in {"utils", "util", "common", "helpers", "misc", "manager"}


@pytest.mark.parametrize("path", [path for path in TESTS if REAL_PROCESSES not in path.parents], ids=name)
def test_tests_do_not_sleep(path):
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"
        if not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert not calls, "wait for an event, or use virtual time"


def test_nothing_is_left_for_later_in_the_source():
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert not [name(path) for path in SOURCES if marks.search(path.read_text())]
