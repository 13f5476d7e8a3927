"""The built-in workflows: SPEC writes a specification, TDFLOW builds it, DO does a task."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from .workflow import ANYTHING, CODE, PROGRAM, TESTS, FileGroup, Gate, Phase, Workflow

_TDFLOW_ROLE: Final = """\
You are a senior engineer who develops one component test first. You follow the specification to the
letter: its names, signatures, errors and acceptance criteria are what others build on. You write
plain, typed, documented code, in the manner of the project that it belongs to."""

TDFLOW: Final = Workflow(
    name="tdflow",
    workflow_type="tdflow",
    role=_TDFLOW_ROLE,
    goal="Develop a component from its specification, test first.",
    token_budget=200_000,
    needs_specification=True,
    phases=[
        Phase(
            name="red",
            mode="write failing tests",
            prompt="""\
Write the tests of the component, and only them. Each acceptance criterion has at least one test
whose name carries its id. Test behaviour that the specification states; nothing of how it may be
written. What the specification asks for does not exist yet: each test that you write has to fail,
and to fail because the implementation is missing.""",
            writes=[TESTS],
            gate=Gate(kind="tests_fail", covers_criteria=True),
            budget_share=0.45,
        ),
        Phase(
            name="green",
            mode="make the tests pass",
            prompt="""\
Write the component so that all tests pass. The tests are fixed: an answer that holds a test file is
refused. Implement all that the specification names, also what no test touches.""",
            writes=[CODE],
            gate=Gate(kind="tests_pass", tests_unchanged=True),
            budget_share=0.45,
        ),
        Phase(
            name="refactor",
            mode="improve the code, keep its behaviour",
            prompt="""\
Improve the component's structure, names, documentation and speed where that is worth it, without
any change of behaviour. The tests are fixed and have to pass still. Give the whole file again, also
where little has changed.""",
            writes=[CODE],
            gate=Gate(kind="tests_pass", tests_unchanged=True),
            budget_share=0.35,
        ),
        Phase(
            name="verify",
            mode="verify from the files alone",
            gate=Gate(kind="suite", tests_unchanged=True, covers_criteria=True),
            max_attempts=1,
            questions="refused",
        ),
    ],
)
"""Red, green, refactor, verify."""

_SPEC_ROLE: Final = """\
You are a senior engineer who writes the specification of a software component with the person who
needs it. You ask what only that person can decide, and decide the rest yourself. What you write is
precise enough that two engineers who never met build components that can replace each other."""

_SPEC_FORM: Final = """\
The specification is one YAML document in this form (docs/workflows.md):

schema_version: 1
metadata: {spec_id: small-words, title: …, version: "1.0.0", status: draft}
components:
  - component_id: snake_case
    location: module.py        # the main file, in the project's language
    tests: [tests/test_module.py]    # files, directories that end in /, or globs
    description: …
    entities:
      - name: Thing
        kind: class            # class, enum, exception, function, constant or protocol
        fields: [{name: size, type: int, description: …}]
        methods:
          - {name: grow, signature: "(self, by: int) -> None", description: …, raises: [TooLarge]}
    errors: [{name: TooLarge, base: ValueError, when: …}]
    acceptance_criteria:
      - {id: AC-01, given: …, when: …, then: …}
clarifications:
  - {question: …, answer: …}"""

SPEC: Final = Workflow(
    name="spec",
    workflow_type="spec",
    role=_SPEC_ROLE,
    goal="Write a component specification.",
    token_budget=150_000,
    groups=[
        FileGroup(name="notes", paths=["notes/"]),
        FileGroup(name="specification", paths=["specs/{name}.yaml"]),
    ],
    phases=[
        Phase(
            name="intake",
            mode="take in what is wanted",
            prompt="""\
Write notes/intake.md: what is wanted and by whom, in your own words; what is given; what is out of
scope; what is unclear.""",
            writes=["notes"],
            gate=Gate(kind="files", require=["notes/intake.md"]),
            budget_share=0.2,
            questions="refused",
        ),
        Phase(
            name="clarify",
            mode="ask the person what only they can decide",
            prompt="""\
Ask the person what is unclear and would change the specification, in one block of questions, each
with two to four options and what choosing it means. Where the answers are here already, or nothing
is unclear, write notes/clarifications.md: each question with its answer and what follows from it,
or why there is none.""",
            writes=["notes"],
            gate=Gate(kind="files", require=["notes/clarifications.md"]),
            budget_share=0.25,
        ),
        Phase(
            name="analyze",
            mode="analyze",
            prompt="""\
Write notes/analysis.md: the entities with their invariants, what can go wrong and which error says
so, the edge cases, and the decisions you took with their reasons.""",
            writes=["notes"],
            gate=Gate(kind="files", require=["notes/analysis.md"]),
            budget_share=0.25,
        ),
        Phase(
            name="draft",
            mode="write the specification",
            prompt=f"""\
Write the specification, whole, as specs/NAME.yaml of the file list. Under clarifications stands
each question that the person answered, with the answer, word for word. Where the file is there
already, it is what the work begins with: keep its form and what nobody asked to change; in a
document of requirements the answers stand under open_questions, as question and answer.

{_SPEC_FORM}""",
            writes=["specification"],
            gate=Gate(kind="files", require=["specs/{name}.yaml"]),
            budget_share=0.6,
            answer_tokens=6000,
        ),
        Phase(
            name="validate",
            mode="validate",
            gate=Gate(kind="specification", require=["specs/{name}.yaml"]),
            on_failure="draft",
            max_attempts=4,
            questions="refused",
        ),
        Phase(
            name="approve",
            mode="have it approved",
            gate=Gate(kind="approval", require=["specs/{name}.yaml"]),
            on_failure="draft",
            max_attempts=4,
            questions="refused",
        ),
    ],
)
"""Intake, clarify, analyze, draft, validate, approve."""

_TASK_ROLE: Final = """\
You are a senior engineer who does one task in a project that others maintain. You read before you
write, change what the task needs and nothing besides, and write in the manner of the code around
it. What the task leaves open you decide as the project would, and say so at the end."""

_PLAN: Final = Phase(
    name="plan",
    mode="ask the person what only they can decide, then plan",
    prompt="""\
Read what the task is about. Ask the person what is unclear and would change the result, in one
block of questions, each with two to four options and what choosing it means. Where the answers are
here already, or nothing is unclear, write the plan: what you are going to change and where, what
you decided with the reason, and how it is tested.""",
    gate=Gate(kind="plan"),
    budget_share=0.5,
)

_FAILING_TEST: Final = Phase(
    name="red",
    mode="write a failing test",
    prompt="""\
Write the tests of what the task asks for, where the project has its tests and in their manner, and
nothing else. Each new test has to fail now, because what it tests does not exist yet.""",
    writes=["project"],
    gate=Gate(kind="tests_fail"),
    budget_share=0.5,
)

_TASK: Final = Phase(
    name="work",
    mode="do the task",
    prompt="""\
Do the task, whole: the code, and its tests and documentation where the project has such. Leave no
file behind that does not belong to the project. End with a summary of a few lines.""",
    writes=["project"],
    gate=Gate(kind="tests_pass"),
)

UNCHECKED: Final = Gate(kind="unchecked")
"""The check of a task that has none."""


def task_workflow(check: Gate, *, plan: bool = False, tests_first: bool = False) -> Workflow:
    """Return DO: an agent does a task in a repository, and a check judges each of its tries.

    Args:
        check: The command that judges, as a gate of kind `tests_pass`; or `UNCHECKED`.
        plan: Whether a phase before asks the person what only they can decide, and plans.
        tests_first: Whether a phase before writes a test, which has to fail and is fixed then.

    Raises:
        InvalidWorkflow: The command can't be used, or tests come first and nothing checks them.
    """
    red = evolve(_FAILING_TEST, gate=evolve(check, kind="tests_fail"))
    work = evolve(_TASK, gate=evolve(check, tests_unchanged=tests_first))
    return Workflow(
        name="do",
        workflow_type="do",
        role=_TASK_ROLE,
        goal="Do a task.",
        token_budget=500_000,
        groups=[FileGroup(name="project", paths=[ANYTHING])],
        phases=[*([_PLAN] if plan else []), *([red] if tests_first else []), work],
        agent_mode="edit",
    )


def program_workflow(name: str, code: str, *, of_component: bool = False) -> Workflow:
    """Return the workflow of a program: its one phase is the code.

    Args:
        name: Its name.
        code: The program's text, which the session holds from then on.
        of_component: Whether its agents develop a component of a specification.
    """
    return Workflow(
        name=name,
        workflow_type=PROGRAM,
        role=_TASK_ROLE,
        goal="Run a program.",
        token_budget=500_000,
        needs_specification=of_component,
        phases=[
            Phase(
                name=PROGRAM,
                mode="run the program",
                gate=Gate(kind=PROGRAM, code=code),
                max_attempts=1,
                questions="refused",
            )
        ],
    )


BUILT_IN: Final = {"tdflow": TDFLOW, "spec": SPEC}
"""The built-in workflows by name."""
