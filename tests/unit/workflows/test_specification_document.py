"""Component specifications: every fault is named, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.workflows.documents.specification import (
    InvalidSpecification,
    UnknownComponent,
    is_test_path,
)
from agentforge_sessions.workflows.documents.specification_document import (
    load_specification,
    parse_specification,
    read_specification,
    with_status,
)
from tests.support.agents import SPEC

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "specs" / "session-manager.yaml"
TWO = (
    SPEC
    + """\
  - component_id: taker
    location: pkg/taker.py
    tests: [tests/test_taker.py]
    entities: [{name: take, kind: function, methods: [{name: take, signature: "(a: int)"}]}]
    acceptance_criteria: [{id: AC-01, given: two, when: taken, then: less}]
"""
)


def faults(text: str) -> list[str]:
    found, told = read_specification(text.encode())
    assert (found is None) is bool(told)
    return told


def test_small_one_is_read() -> None:
    found = parse_specification(SPEC.encode(), path=Path("x"))
    component = found.component(None, path=Path("x"))
    assert (component.component_id, component.module) == ("adder", "adder")
    assert component.criteria[0].in_test_names == "ac_01"
    assert found.text == SPEC


def test_example_is_this_projects_own_session_domain() -> None:
    from agentforge_sessions.harness import session_domain

    component = load_specification(EXAMPLE).component("session_domain", path=EXAMPLE)
    for entity in (*component.entities, *component.errors):
        real = getattr(session_domain, entity.name)
        if entity.kind not in {"function", "constant"}:
            for member in (*entity.methods, *entity.fields):
                assert hasattr(real, member.name) or member.name in real.__annotations__
    assert len(component.entities) == 5


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("schema_version: 1", "schema_version: 2", "line 1: schema_version: 2 is newer than 1"),
        ("schema_version: 1\n", "", "schema_version: is missing"),
        ('version: "1.0.0"', "version: 1.0", "line 2: metadata.version: expected text"),
        (
            "status: approved",
            "status: maybe",
            "status: expected one of draft, approved, found maybe",
        ),
        ("spec_id: small", "spec_id: Small One", "metadata.spec_id: 'Small One' is no name"),
        ("title: Small", "titel: Small", "did you mean 'title'?"),
        ("component_id: adder", "component_id: Adder", "component_id: 'Adder' is no name"),
        ("location: adder.py", "location: ../adder.py", "not inside the workspace"),
        ("location: adder.py", "location: adder.txt", "is no source file"),
        ("location: adder.py", "location: my-adder.py", "'my-adder' is no name of a module"),
        ("location: adder.py", "location: src/class.py", "'class' is no name of a module"),
        ("location: adder.py", "location: json.py", "'json' is a module that is there already"),
        ("location: adder.py", "location: pytest/a.py", "'pytest' is a module that is there"),
        ("location: adder.py", "location: conftest.py", "goes by the name of a test"),
        ("location: adder.py", "location: test_adder.py", "goes by the name of a test"),
        ("location: adder.py", "location: tests/adder.py", "and among its tests (tests/)"),
        ("tests: [tests/]", "tests: [adder_tests.py]", "neither a file test_….py nor a directory"),
        ("tests: [tests/]", "tests: []", "tests: is an empty list"),
        ("kind: function", "kind: gadget", "kind: expected one of class, enum"),
        ("(a: int, b: int) -> int", "a, b", "'a, b' is none; write it as"),
        ("description: The sum.", "raises: [Boom]", "add.add raises 'Boom', which is neither"),
        ("id: AC-01", "id: one", "'one' is no name here; it is as AC-01"),
        (", text: Two numbers are added.", "", "expected text, or given, when and then"),
        ("name: add\n", "name: 2add\n", "it is a Python name"),
        ("metadata:", "metadata: &a", "an anchor"),
    ],
)
def test_each_fault_is_named(old: str, new: str, fault: str) -> None:
    assert old in SPEC
    told = faults(SPEC.replace(old, new, 1))
    assert any(fault in one for one in told), told


def test_all_faults_are_told_at_once() -> None:
    text = SPEC
    for old, new in (("kind: function", "kind: gadget"), ("AC-01", "x"), ("tests/", "/")):
        text = text.replace(old, new)
    with pytest.raises(InvalidSpecification) as caught:
        parse_specification(text.encode(), path=Path("spec.yaml"))
    assert len(caught.value.faults) == 3
    assert str(caught.value).startswith("spec.yaml is not a usable specification: line 6: ")


@pytest.mark.parametrize("text", ["", "- 1", "7", "{", "a: b\n---\nc: d", "\t"])
def test_what_is_no_specification_is_told(text: str) -> None:
    assert faults(text)


def test_names_and_places_stand_once() -> None:
    twice = TWO.replace("taker", "adder").replace("pkg/adder.py", "adder.py")
    told = faults(twice)
    assert any("component_id: 'adder' stands on line 4 too" in one for one in told)
    assert any("location: 'adder.py' stands on line 4 too" in one for one in told)


def test_component_is_chosen_by_name() -> None:
    found = parse_specification(TWO.encode(), path=Path("x"))
    assert found.component("taker", path=Path("x")).module == "pkg.taker"
    with pytest.raises(UnknownComponent, match="several components; it has adder, taker"):
        found.component(None, path=Path("x"))
    with pytest.raises(UnknownComponent, match="no component 'giver'"):
        found.component("giver", path=Path("x"))


def test_excerpt_holds_one_component_and_all_around() -> None:
    found = parse_specification((TWO + "clarifications: []\n").encode(), path=Path("x"))
    one = found.excerpt(found.component("adder", path=Path("x")))
    other = found.excerpt(found.component("taker", path=Path("x")))
    assert one == SPEC + "clarifications: []\n"
    assert "taker.py" in other
    assert "adder" not in other
    assert other.startswith("schema_version: 1\nmetadata:")


@pytest.mark.parametrize("status", ["draft", '"draft"', "'approved'"])
def test_status_is_changed_and_nothing_else(status: str) -> None:
    text = SPEC.replace("status: approved", f"status: {status}")
    changed = with_status(text.encode(), "approved")
    assert changed == SPEC.encode()
    block = text.replace(
        'metadata: {spec_id: small, title: Small, version: "1.0.0", status: ' + status + "}",
        f'metadata:\n  spec_id: small\n  status: {status}\n  title: Small\n  version: "1.0.0"',
    )
    assert b"\n  status: approved\n" in (with_status(block.encode(), "approved") or b"")
    assert with_status(b"x", "approved") is None


def test_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecification, match="can't be read: No such file"):
        load_specification(tmp_path / "none.yaml")


# -------------------------------------------------------------------------------- other languages

SCRIPT = """\
schema_version: 1
metadata: {spec_id: star-height, title: Star height, version: "1.0.0", status: approved}
components:
  - component_id: star_height
    location: lib/star-height.js
    other_files: [types/index.d.ts, "types/parts/"]
    tests: ["test/**/*.test.js"]
    entities:
      - name: starHeight
        kind: function
        methods:
          - {name: starHeight, signature: "(re: string | RegExp): number", raises: [TypeError]}
      - {name: $Options, kind: interface, fields: [{name: max-height, type: number}]}
    acceptance_criteria: [{id: AC-01, text: Nested repetitions are counted.}]
"""


def test_component_may_be_in_another_language() -> None:
    component = parse_specification(SCRIPT.encode(), path=Path("x")).component(None, path=Path("x"))
    assert not component.is_python
    assert component.code_places == ("lib/star-height.js", "types/index.d.ts", "types/parts/")
    assert is_test_path(component, "test/unit/star-height.test.js")
    assert not is_test_path(component, "test/helper.js")
    assert component.module == "lib/star-height.js"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("lib/star-height.js\n", "../a.js\n", "not inside the workspace"),
        ("lib/star-height.js\n", "README.md\n", "is no source file"),
        ('"test/**/*.test.js"', "lib/star-height.js", "and among its tests"),
        ("types/index.d.ts", "/etc/passwd", "other_files[0]: '/etc/passwd' is not inside"),
        ("name: starHeight\n", "name: star height\n", "it has 1 to 100 characters, and no blank"),
        ("kind: interface", "kind: thing", "kind: expected one of class, enum"),
        (
            "    entities:\n",
            "    import_root: lib\n    entities:\n",
            "import_root: is of Python components",
        ),
    ],
)
def test_each_fault_of_another_language_is_named(old: str, new: str, fault: str) -> None:
    assert old in SCRIPT
    told = faults(SCRIPT.replace(old, new))
    assert any(fault in one for one in told), told


@pytest.mark.parametrize(
    ("location", "root", "module"),
    [
        ("src/adders/one.py", None, "adders.one"),
        ("src/adders/__init__.py", None, "adders"),
        ("src/adders/one.py", ".", "src.adders.one"),
        ("lib/py/adders.py", "lib/py", "adders"),
        ("adders/one.py", None, "adders.one"),
    ],
)
def test_module_begins_at_the_import_root(location: str, root: str | None, module: str) -> None:
    said = "" if root is None else f"    import_root: {root}\n"
    text = SPEC.replace("    location: adder.py\n", f"    location: {location}\n{said}")
    component = parse_specification(text.encode(), path=Path("x")).component(None, path=Path("x"))
    assert component.module == module


def test_import_root_is_above_the_location() -> None:
    text = SPEC.replace("location: adder.py", "location: adder.py\n    import_root: lib")
    assert any("'adder.py' is not below 'lib'" in one for one in faults(text))
