"""The one reader: nodes know their line, faults are collected, what is hostile soon ends."""

from __future__ import annotations

import pytest

from agentforge_sessions.base.reading.fields import Fields, filled
from agentforge_sessions.base.reading.nodes import (
    MAX_FAULTS,
    Faults,
    MappingNode,
    Node,
    NoJsonObject,
    Scalar,
    parse_json,
)
from agentforge_sessions.base.reading.toml_values import parse_toml
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


def faults_in(form: str, text: str) -> list[str]:
    """Read one document, whose fields are the same in each form, and return its faults."""
    faults = Faults()

    def take(node: Node) -> None:
        fields = Fields(node, "", faults)
        fields.text("name", required=True)
        fields.whole("count", 1, least=1, most=9)
        fields.number("wait_s", most=60, unit="seconds")
        fields.flag("on")
        fields.one_of("mode", ("fast", "safe"), "safe")
        fields.distinct("tags", most=2)
        for inner in fields.each("items", most=1):
            inner.text("label", required=True)
            inner.done()
        fields.inner("more").done()
        fields.done()

    if form == "yaml":
        read_document(text, faults, take)
    elif form == "toml":
        values, faults = parse_toml(text.encode())
        take(values)
    else:
        take(parse_json(text.encode()))
    return faults.sorted()


BROKEN = {
    "yaml": """\
count: 70
wait_s: 61
on: [1]
mode: quick
tags: [a, a]
items: [{labl: x}]
more: 5
colour: red
""",
    "toml": """\
count = 70
wait_s = 61
on = [1]
mode = "quick"
tags = ["a", "a"]
items = [{labl = "x"}]
more = 5
colour = "red"
""",
    "json": """{
"count": 70, "wait_s": 61, "on": [1], "mode": "quick", "tags": ["a", "a"],
"items": [{"labl": "x"}], "more": 5, "colour": "red"}""",
}


@pytest.mark.parametrize("form", BROKEN)
def test_what_is_wrong_is_said_in_the_same_words_for_every_form(form: str) -> None:
    said = [
        one.partition(": ")[2] if form != "json" else one for one in faults_in(form, BROKEN[form])
    ]
    quick = "quick" if form == "yaml" else "'quick'"
    assert sorted(said) == sorted(
        [
            "name: is missing" if form != "toml" else "is missing",
            "count: expected 1 to 9, found 70",
            "wait_s: expected more than 0, up to 60 seconds, found 61",
            "on: expected true or false, found a list",
            f"mode: expected one of fast, safe, found {quick}",
            "tags[1]: 'a' stands twice",
            "items[0].label: is missing",
            "items[0].labl: there is no such key; did you mean 'label'?",
            "more: expected keys and values, found 5",
            "colour: there is no such key; "
            "there are count, items, mode, more, name, on, tags, wait_s",
        ]
    )


@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_fault_has_the_line_of_its_key(form: str) -> None:
    lines = [
        one.partition(":")[0] for one in faults_in(form, BROKEN[form]) if "name: is" not in one
    ]
    assert lines == [f"line {number}" for number in (1, 2, 3, 4, 5, 6, 6, 7, 8)]


def test_field_of_a_mapping_that_is_missing_is_not_missing_itself() -> None:
    faults = Faults()
    inner = Fields({}, "", faults).inner("more", required=True)
    assert inner.text("label", required=True) is None
    assert faults.sorted() == ["more: is missing"]


def test_null_counts_as_not_there_and_where_it_is_required_as_empty() -> None:
    faults = Faults()
    fields = Fields({"a": None, "b": None}, "x", faults)
    assert (fields.has("a"), fields.holds("a"), fields.text("a")) == (False, True, None)
    fields.text("b", required=True)
    fields.done()
    assert faults.sorted() == ["x.b: is empty"]


def test_every_text_fits_the_rule_of_its_document_further_in_too() -> None:
    faults = Faults()
    fields = Fields({"a": " ", "more": {"b": ["x\0"]}}, "", faults, rule=filled)
    assert fields.text("a") is None
    assert fields.inner("more").texts("b") == ()
    assert faults.sorted() == ["a: is empty", "more.b[0]: holds a NUL character"]


def test_faults_beyond_the_most_are_dropped() -> None:
    faults = Faults()
    for number in range(2 * MAX_FAULTS):
        faults.add(f"a{number}", "is wrong")
    assert len(faults) == MAX_FAULTS


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "expected an object, found a list"),
        (b"{", "it is no JSON"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": ' + b"[" * 200_000, "it is nested too deeply"),
    ],
)
def test_what_is_no_json_object_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(NoJsonObject, match=said):
        parse_json(data)
