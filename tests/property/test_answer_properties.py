"""Whatever an agent says, taking it apart ends, and gives only what it may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.workflows.names import path_problem
from agentforge_sessions.workflows.prompts.answers import parse_answer
from agentforge_sessions.workflows.prompts.prompts import fenced

LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "```",
                "````",
                "~~~",
                "```python:a.py",
                "````markdown:b/c.md",
                "  ```sh",
                "```agentforge:questions",
                "```agentforge:delete",
                "- prompt: x",
                "a.py",
                "```x:../up",
                "\r",
            ]
        ),
        st.text(max_size=20),
    ),
    max_size=25,
)


@given(LINES)
def test_any_text_is_taken_or_refused_with_words(lines: list[str]) -> None:
    answer = parse_answer("\n".join(lines))
    if answer.faults:
        assert answer.files == ()
        assert answer.questions == ()
        assert answer.deleted == ()
    for one in answer.files:
        assert path_problem(one.path) is None
        assert "\r" not in one.content


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t`~"))
)
def test_what_is_shown_to_an_agent_in_a_block_comes_back_as_it_was(text: str) -> None:
    text = text.replace("\r", "") + "\n"
    answer = parse_answer(f"Here:\n\n{fenced(text, 'text:file.txt')}\n")
    assert answer.faults == ()
    assert [one.content for one in answer.files] == [text]
