"""Strict YAML: nodes that know their line, every fault collected, a soon end of what is hostile."""

from __future__ import annotations

import pytest

from agentforge_sessions.base.reading.faults import MAX_FAULTS, Faults
from agentforge_sessions.base.reading.fields import Fields
from agentforge_sessions.base.reading.nodes import MappingNode, Node, Scalar
from agentforge_sessions.base.reading.yaml_nodes import read_document


def root_of(text: str) -> tuple[MappingNode | None, list[str]]:
    faults = Faults()
    return read_document(text, faults, lambda root: root), faults.sorted()


def test_node_knows_its_line_and_whether_it_is_text() -> None:
    root, faults = root_of("a: 1\nb:\n  - x\n  - '1'\nc: ~\n")
    assert root is not None
    assert faults == []
    scalars = [root["a"], *root["b"], root["c"]]
    assert [(one.line, one.is_text, one.is_null) for one in scalars if isinstance(one, Scalar)] == [
        (1, False, False),
        (3, True, False),
        (4, True, False),
        (5, False, True),
    ]


def test_every_fault_is_collected_in_the_order_of_the_lines() -> None:
    _, faults = root_of("a: &x 1\nb: *x\nc: !t 1\na: 2\n[d]: 3\n")
    assert [one.partition(":")[0] for one in faults] == [f"line {n}" for n in range(1, 6)]
    for fault, said in zip(
        faults, ("anchor", "alias", "tag", "stands twice", "no text"), strict=True
    ):
        assert said in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is empty"),
        ("- a", "line 1: expected the keys of a workflow, found a list"),
        ("a: [", "line 2: it is not YAML"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document begins"),
        ("a: " + "[" * 9 + "]" * 9, "line 1: nested deeper"),
        ("a: 1" + "\n" * (1 << 20), "line 2: more than 1,048,575 blank lines in a row"),
    ],
)
def test_what_is_no_document_of_fields_is_a_fault(text: str, fault: str) -> None:
    _, faults = root_of(text)
    assert any(one.startswith(fault) for one in faults), faults


def test_reading_ends_after_enough_faults() -> None:
    root, faults = root_of("a: 1\n" * 10_000)
    assert root is None
    assert len(faults) == MAX_FAULTS


def test_long_list_is_given_away_item_by_item_and_others_are_bounded() -> None:
    seen: list[tuple[int, Node]] = []

    def judge(index: int, node: Node) -> str:
        seen.append((index, node))
        return f"item {index}"

    text = "long: [a, b, c, d]\nversion: 7\nshort: [a, b, c, d]\n"
    faults, versions = Faults(), list[Node]()
    root = read_document(
        text,
        faults,
        lambda root: root,
        max_width=3,
        on_item={"long": judge},
        on_field={"version": versions.append},
    )
    assert root is None
    assert len(versions) == 1
    assert [index for index, _ in seen] == [0, 1, 2, 3]
    assert faults.sorted() == ["line 3: more than 3 fields or items; a workflow has fewer"]

    root = read_document(text, Faults(), lambda root: root, on_item={"long": judge})
    assert root is not None
    assert root["long"] == ["item 0", "item 1", "item 2", "item 3"]


def test_item_of_a_list_further_in_is_not_given_away() -> None:
    def judge(index: int, node: Node) -> object:
        raise AssertionError(index, node)

    faults = Faults()
    assert read_document("a: {long: [1]}", faults, lambda root: root, on_item={"long": judge})
    assert not faults


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("'5'", "line 1: n: expected a whole number, found the text '5'; take its quotes away"),
        ("1.5", "line 1: n: expected a whole number, found 1.5"),
        ("70", "line 1: n: expected 1 to 9, found 70"),
        ("[5]", "line 1: n: expected a whole number, found a list"),
    ],
)
def test_number_that_is_none_is_a_fault(value: str, fault: str) -> None:
    faults = Faults()
    read_document(
        f"n: {value}", faults, lambda root: Fields(root, "", faults).whole("n", 3, least=1, most=9)
    )
    assert faults.sorted() == [fault]


def test_key_that_was_not_taken_is_a_fault_with_the_close_spelling() -> None:
    faults = Faults()

    def make(root: MappingNode) -> None:
        fields = Fields(root, "x", faults)
        fields.text("name", required=True)
        fields.done()

    read_document("nmae: a", faults, make)
    assert faults.sorted() == [
        "line 1: x.name: is missing",
        "line 1: x.nmae: there is no such key; did you mean 'name'?",
    ]
