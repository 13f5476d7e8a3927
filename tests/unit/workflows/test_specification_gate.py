"""The gate of SPEC: a specification without a fault that holds what the person decided."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.verdict import GateInput, Verdict
from agentforge_sessions.workflows.workflow import Gate
from tests.support.agents import SPEC, FakeGates

GATE = Gate(kind="specification", require=["specs/small.yaml"])
ASKED = (
    ("May numbers be negative?", "yes"),
    ("How are they\nrounded?", 'to the nearest, "half" up; it\'s usual'),
)
ANSWERED = """\
clarifications:
  - {question: "May numbers be negative?", answer: "yes"}
  - question: How are they rounded?
    answer: 'to the nearest, "half" up; it''s usual'
"""


def judge(text: str, answered: tuple[tuple[str, str], ...] = ASKED) -> Verdict:
    gates = FakeGates()
    given = GateInput(files={"specs/small.yaml": text.encode()}, answered=answered)
    verdict = run_gate(GATE, given, gates)
    assert gates.runs == [], "nothing has to be run for it"
    return verdict


def test_answers_that_stand_word_for_word_pass() -> None:
    verdict = judge(SPEC + ANSWERED)
    assert verdict.passed, verdict.evidence
    assert verdict.facts["criteria_count"] == 1


@pytest.mark.parametrize(
    "clarifications",
    [
        "",
        ANSWERED.replace('answer: "yes"', 'answer: "no"'),
        ANSWERED.replace('answer: "yes"', 'answer: "yes, but small"'),
        ANSWERED.replace("May numbers be", "Are numbers"),
        # What the person said stands somewhere, and not as the answer to what was asked.
        ANSWERED.replace('answer: "yes"', 'answer: "no"')
        + '  - {question: Is zero a number?, answer: "yes"}\n',
    ],
    ids=["none", "another", "more", "another question", "elsewhere"],
)
def test_answer_that_is_not_the_persons_fails_and_is_told(clarifications: str) -> None:
    verdict = judge(SPEC + clarifications)
    assert not verdict.passed
    assert "'May numbers be negative?' was answered with 'yes'" in verdict.evidence[0]


def test_question_that_was_asked_again_has_its_last_answer() -> None:
    again = (("May numbers be negative?", "no"), *ASKED)
    assert judge(SPEC + ANSWERED, again).passed
    assert not judge(SPEC + ANSWERED, again[::-1]).passed


def test_every_fault_of_the_document_is_evidence() -> None:
    verdict = judge(SPEC.replace("kind: function", "kind: gadget").replace("AC-01", "one"))
    assert not verdict.passed
    assert verdict.facts["faults"] == 2
    assert all(piece.startswith("specs/small.yaml: line ") for piece in verdict.evidence)
