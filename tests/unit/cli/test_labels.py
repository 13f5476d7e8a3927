"""What a session carries for its user, given, changed and shown by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from agentforge_sessions.harness import SessionManager, SessionStore, session_schema
from agentforge_sessions.harness.views.briefing import brief
from tests.unit.cli.conftest import CommandLine


def begin(agentforge: CommandLine, **given: object) -> str:
    manager = SessionManager(agentforge.base)
    return manager.create("tdflow", "red", **given).session_id  # type: ignore[arg-type]


def test_set_changes_what_is_named_and_no_more(agentforge: CommandLine) -> None:
    session_id = begin(agentforge, title="first", tags=["a", "b"], metadata={"k": 1, "l": 2})
    done = agentforge(
        *("session", "set", session_id, "--title", "second", "--tag", "c", "--untag", "a"),
        *("--metadata", 'k={"x": [1.5]}', "--metadata", "owner=ann", "--unset", "l"),
    )
    assert done.code == 0
    found = agentforge.session(session_id)
    assert (found.title, found.tags) == ("second", ("b", "c"))
    assert found.metadata == {"k": {"x": (1.5,)}, "owner": "ann"}
    for line in ("title      second", "tags       b, c", 'metadata   owner = "ann"'):
        assert line in done.out
    assert agentforge("session", "set", session_id, "--title", "").code == 0
    assert agentforge.session(session_id).title is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name what to change"),
        (("--metadata", "x"), "names no field"),
        (("--metadata", "=1"), "names no field"),
        (("--metadata", "x=NaN"), "is no number"),
        (("--tag", "a b", "--title", "x\ny"), "holds a blank"),
    ],
)
def test_what_can_not_be_set_is_refused(
    agentforge: CommandLine, words: tuple[str, ...], said: str
) -> None:
    session_id = begin(agentforge)
    done = agentforge("session", "set", session_id, *words)
    assert done.code == 2
    assert said in done.err
    assert agentforge.session(session_id).revision == 1


def test_show_and_list_have_what_a_session_carries(agentforge: CommandLine) -> None:
    parent = begin(agentforge, title="the parent")
    child = begin(
        agentforge,
        title="the child",
        tags=["t"],
        metadata={"k": None},
        workflow_state={"step": 1},
        parent_id=parent,
    )
    shown = agentforge("show", child).out
    for part in ("the child", "tags       t", "k = null", "its workflow: step", parent):
        assert part in shown
    assert child in agentforge("show", parent).out
    document = json.loads(agentforge("show", child, "--json").out)
    assert document["workflow_state"] == {"step": 1}
    assert document["children"] == []
    assert json.loads(agentforge("show", parent, "--json").out)["children"] == [child]
    listed = json.loads(agentforge("list", "--json").out)["sessions"]
    assert {one["session_id"]: (one["title"], one["tags"], one["parent_id"]) for one in listed} == {
        parent: ("the parent", [], None),
        child: ("the child", ["t"], parent),
    }


def test_what_show_writes_is_as_the_schema_says(agentforge: CommandLine) -> None:
    session_id = begin(agentforge, title="t", metadata={"k": [1, {}]})
    manager = SessionManager(agentforge.base)
    manager.open(session_id)
    manager.record_tokens(99_999)
    manager.advance_phase("green")
    manager.describe(tags=["x"])
    manager.complete()
    schema = json.loads(agentforge("session", "schema").out)
    assert schema == session_schema()
    document = json.loads(agentforge("show", session_id, "--json").out)
    Draft202012Validator(schema).validate(document)
    assert document["history"][-2]["action"] == "session_described"


def test_a_run_begins_with_its_labels(agentforge: CommandLine, workflow: Path) -> None:
    agentforge(
        *("run", workflow, "--title", "a run", "--tag", "x", "--tag", "y"),
        *("--metadata", "n=1"),
    )
    (session_id,) = SessionStore(agentforge.base).list_sessions()
    found = agentforge.session(session_id)
    assert (found.title, found.tags, found.metadata) == ("a run", ("x", "y"), {"n": 1})


def test_a_briefing_shows_what_the_configuration_says(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = {"metadata": {"k": "x" * 2_000}, "workflow_state": {"step": 7}}
    session_id = begin(agentforge, title="A title", tags=["t"], goal="g", **data)
    plain = agentforge("session", "brief", session_id).out
    assert plain.splitlines()[3:5] == ["Title: “A title”", "Goal: “g”"]
    assert "Tags: “t”" in plain
    assert "Metadata" not in plain
    configuration = tmp_path / "config.toml"
    configuration.write_text('[briefing]\nshows = ["workflow_state", "metadata"]\n')
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(configuration))
    told = agentforge("session", "brief", session_id).out
    assert 'Workflow state: “{"step": 7}”' in told
    assert "Metadata: " in told
    assert "A title" not in told
    assert max(map(len, told.splitlines())) < 1_300
    configuration.write_text('[briefing]\nshows = ["secrets"]\n')
    refused = agentforge("session", "brief", session_id)
    assert refused.code == 7
    assert "expected one of title, tags, metadata, workflow_state" in refused.err


def test_a_briefing_that_is_to_show_what_there_is_not_is_refused(agentforge: CommandLine) -> None:
    session = SessionStore(agentforge.base).load(begin(agentforge))
    assert session is not None
    with pytest.raises(ValueError, match="shows: expected some of"):
        brief(session, shows=["secrets"])
