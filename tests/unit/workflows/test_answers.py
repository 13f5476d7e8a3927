"""An agent's answer, taken apart: strict about paths, tolerant of the rest."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows.prompts.answers import MAX_FILES, parse_answer


def files(text: str) -> dict[str, str]:
    answer = parse_answer(text)
    assert answer.faults == ()
    return {one.path: one.content for one in answer.files}


@pytest.mark.parametrize(
    "text",
    [
        "```python:a.py\nx = 1\n```",
        "Prose before.\n\n```python:a.py\nx = 1\n```\n\nand after.",
        "```python:a.py\r\nx = 1\r\n```\r\n",
        "\ufeff```python:a.py\nx = 1\n```",
        "~~~python:a.py\nx = 1\n~~~",
        "``````python:a.py\nx = 1\n``````",
        "```python:a.py   \nx = 1\n```   ",
        "1. First:\n\n   ```python:a.py\n   x = 1\n   ```",
        "      ```python:a.py\n      x = 1\n      ```",
        "```markdown\nHere it is:\n\n```python:a.py\nx = 1\n```\n```",
        "````\n```python:a.py\nx = 1\n```\n````",
        "```python:a.py\nx = 1\n```\nAgain:\n```python:a.py\nx = 1\n```",
        "```c++:a.py\nx = 1\n```",
        "```:a.py\nx = 1\n```",
        "``` python:a.py\nx = 1\n```",
        "Use `a` and ```b``` in a line.\n```python:a.py\nx = 1\n```",
    ],
)
def test_one_file_is_found_in_every_spelling(text: str) -> None:
    assert files(text) == {"a.py": "x = 1\n"}


def test_fences_within_a_file_are_part_of_it() -> None:
    doc = 'x = """\n```python\nf()\n```\n"""\n'
    assert files(f"```python:a.py\n{doc}```\n```python:b.py\ny\n```") == {
        "a.py": doc,
        "b.py": "y\n",
    }
    readme = "# A\n\n```sh\nls\n```\n\n~~~\nbare\n~~~\n"
    assert files(f"````markdown:README.md\n{readme}````") == {"README.md": readme}
    assert files(f"```markdown:README.md\n{readme}```") == {"README.md": readme}


def test_shorter_fences_never_end_a_longer_one() -> None:
    assert files("````text:a.txt\n```\n``` x\n````") == {"a.txt": "```\n``` x\n"}


def test_empty_file_is_a_file() -> None:
    assert files("```python:pkg/__init__.py\n```") == {"pkg/__init__.py": ""}


def test_blocks_without_a_path_are_prose_and_noted() -> None:
    answer = parse_answer("Run it:\n```sh\nmake\n```\n```text of:nothing\nx\n```")
    assert (answer.files, answer.faults) == ((), ())
    assert answer.notes[0] == "line 2: a block without a path was taken for prose"
    assert "line 5: a block marked 'text of:nothing' was passed over" in answer.notes[1]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../a.py", "not inside the workspace"),
        ("a/../../b.py", "not inside the workspace"),
        ("/etc/passwd", "not inside the workspace"),
        ("~/a.py", "not inside the workspace"),
        ("a//b.py", "an empty part"),
        ("./a.py", "'.'"),
        ("a/", "an empty part"),
        ("", "is empty"),
        ("a\\b.py", "backslash"),
        ("C:\\a.py", "backslash"),
        ("C:/a.py", "a colon"),
        ("my file.py", "a blank"),
        ("a.py {.numberLines}", "a blank"),
        ("a\x00.py", "control character"),
        ("x" * 201, "a part of more than"),
        ("a/" * 600 + "b.py", "has more than"),
    ],
)
def test_paths_are_strict_and_refuse_the_whole_answer(path: str, words: str) -> None:
    answer = parse_answer(f"```python:good.py\nx\n```\n```python:{path}\nx = 1\n```")
    assert answer.files == ()
    (fault,) = answer.faults
    assert fault.startswith("line 4: ")
    assert words in fault


def test_everything_that_is_wrong_is_told_with_its_line() -> None:
    answer = parse_answer(
        "```python:../a.py\n```\n```python:b.py\n1\n```\n```python:b.py\n2\n```\n"
        "```agentforge:nonsense\n```\n```python:c.py\nx\x07\n```\n```python:d.py\ncut off"
    )
    assert [fault.split(":")[0] for fault in answer.faults] == [
        "line 1",
        "line 6",
        "line 9",
        "line 11",
        "line 14",
    ]
    told = " ".join(answer.faults)
    for words in ("stands twice", "no block 'agentforge:nonsense'", "control", "never closed"):
        assert words in told


def test_file_can_not_be_a_directory_too() -> None:
    answer = parse_answer("```x:a\n1\n```\n```x:a/b\n2\n```")
    assert "can't be a file and the directory of 'a/b'" in answer.faults[0]


def test_file_that_swallowed_the_next_one_is_not_guessed_at() -> None:
    # The first block's own fence is never closed, so where it ends nobody can say.
    answer = parse_answer("```python:a.py\n```sh\nls\n\n```python:b.py\ny\n```\n")
    assert answer.files == ()
    assert "never closed" in answer.faults[0]


def test_refusal_of_a_path_is_a_fault() -> None:
    answer = parse_answer("```x:a\n1\n```", refuse=lambda path: f"{path!r} is not yours")
    assert answer.faults == ("line 1: 'a' is not yours",)


def test_there_may_be_only_so_many_files() -> None:
    text = "".join(f"```x:f{number}\n```\n" for number in range(MAX_FILES + 1))
    assert f"{MAX_FILES} are allowed" in parse_answer(text).faults[0]


def test_questions_in_their_spellings() -> None:
    answer = parse_answer(
        "```agentforge:questions\n- How?\n- prompt: Which?\n  title: Choice\n  multi_select: true\n"
        "  options:\n    - a\n    - {label: b, description: the other}\n```"
    )
    how, which = answer.questions
    assert (how.prompt, how.title, how.options) == ("How?", "How?", ())
    assert (which.title, which.multi_select) == ("Choice", True)
    assert [(one.label, one.description) for one in which.options] == [
        ("a", None),
        ("b", "the other"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 7", "line 2: questions[0]: expected keys and values, found 7"),
        ("{prompt: }", "line 2: questions[0].prompt: is empty"),
        ("{prompt: a, colour: red}", "questions[0].colour: there is no such key"),
        (r'{prompt: "a\ud800"}', "line 2: it is not YAML"),
        (r'{prompt: a, options: ["\ud800"]}', "line 2: it is not YAML"),
        ("{prompt: a, options: b}", "options: expected a list"),
        ("{prompt: a, options: [b, b]}", "a label of its own"),
        ("{prompt: a, options: [{text: b}]}", "options[0].label: is missing"),
        ("{prompt: a, multi_select: maybe}", "true or false"),
        ("{prompt: [", "it is not YAML"),
        ("{prompt: a\ud800}", "it is not YAML: surrogates not allowed"),
        ("{prompt: &a b, title: *a}", "line 2: an anchor"),
        ("!!python/object/apply:os.system [id]", "a tag (tag:yaml.org,2002:python/object/"),
    ],
)
def test_questions_that_are_none_are_refused(text: str, words: str) -> None:
    answer = parse_answer(f"```agentforge:questions\n{text}\n```")
    assert answer.questions == ()
    assert words in answer.faults[0]


def test_deleted_files_are_named_one_a_line() -> None:
    answer = parse_answer("```agentforge:delete\n- a.py\n\nb/c.py\n```\n```x:d\n```")
    assert answer.deleted == ("a.py", "b/c.py")
    assert "line 2: '../a'" in parse_answer("```agentforge:delete\n../a\n```").faults[0]
    both = parse_answer("```x:d\n```\n```agentforge:delete\nd\n```")
    assert "written and deleted" in both.faults[0]


def test_usage_needs_both_counts() -> None:
    good = parse_answer("```agentforge:usage\n{input_tokens: 3, output_tokens: 4}\n```").usage
    assert good is not None
    assert good.total == 7
    many = f"{{input_tokens: 3, output_tokens: {10**30}}}"  # no session could record it
    for bad in ("{input_tokens: 3}", "{input_tokens: -3, output_tokens: 4}", "7", many):
        assert parse_answer(f"```agentforge:usage\n{bad}\n```").faults
