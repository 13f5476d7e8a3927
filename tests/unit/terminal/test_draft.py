from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.entrypoints.terminal.drafts.draft import (
    Ask,
    Draft,
    Reply,
    answers_of,
    ask_back,
    fits,
    from_fields,
    pick,
    take_recommended,
    take_text,
    to_fields,
    write,
)
from agentforge_sessions.entrypoints.terminal.drafts.draft_store import (
    DraftCache,
    DraftStore,
    DraftUnreadable,
)
from agentforge_sessions.questions import UserAnswer
from agentforge_sessions.questions.rules import validate_answers
from tests.support.filesystem import FaultyFileSystem, every_call_from
from tests.support.question_queue import CHECKS, STORAGE, session_id

ONE = session_id(1)
QUESTIONS = (STORAGE, CHECKS)

_REPLIES = st.builds(
    Reply,
    picked=st.lists(st.integers(0, 2), max_size=3),
    other=st.booleans(),
    text=st.text(max_size=20),
    ask=st.sampled_from([None, *Ask]),
    guidance=st.text(max_size=20),
)
_DRAFTS = st.builds(
    Draft,
    session_id=st.just(ONE),
    replies=st.tuples(_REPLIES, _REPLIES),
    position=st.integers(0, 1),
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pick"), st.integers(0, 2)),
        st.tuples(st.just("write"), st.text(max_size=5)),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("ask"), st.sampled_from([None, *Ask])),
        st.tuples(st.just("recommended"), st.none()),
    ),
    max_size=20,
)


@given(st.integers(0, 1), _STEPS)
def test_whatever_is_done_the_answer_is_one_that_the_question_takes(
    which: int, steps: list[tuple[str, object]]
) -> None:
    question, reply = QUESTIONS[which], Reply()
    for name, value in steps:
        if name == "pick":
            reply = pick(question, reply, value)  # type: ignore[arg-type]
        elif name == "write":
            reply = write(question, reply, value)  # type: ignore[arg-type]
        elif name == "take":
            reply = take_text(question, reply, taken=bool(value))
        elif name == "ask":
            reply = ask_back(reply, value)  # type: ignore[arg-type]
        else:
            reply = take_recommended(question, reply)
        assert question.multi_select or len(reply.picked) + reply.has_text <= 1
    draft = Draft(session_id=ONE, replies=(reply,))
    answers = answers_of((question,), draft)
    if reply.answered:
        assert answers
    if answers:
        validate_answers(answers, (question,))


@given(_DRAFTS)
def test_a_draft_is_read_as_it_was_written(draft: Draft) -> None:
    fields = json.loads(json.dumps(to_fields(draft)))
    assert from_fields(fields, session_id=ONE) == draft


@given(_DRAFTS, st.data())
def test_a_draft_with_a_field_of_another_kind_is_refused_with_a_value_error(
    draft: Draft, data: st.DataObject
) -> None:
    fields = to_fields(draft)
    target = data.draw(st.sampled_from([fields, *fields["replies"]]))
    name = data.draw(st.sampled_from(sorted(set(target) - {"ask"})))
    target[name] = data.draw(st.sampled_from([None, [], {}, [None], [-1], [True], object()]))
    if target[name] == [] and name == "picked":
        return
    with pytest.raises(ValueError, match=r"\w"):
        from_fields(fields, session_id=ONE)


def test_a_draft_fits_only_questions_of_its_shape() -> None:
    draft = Draft(session_id=ONE, replies=(Reply(picked=(2,)), Reply(picked=(0, 1))))
    assert fits(draft, (STORAGE, CHECKS))
    assert not fits(draft, (CHECKS, STORAGE)), "two choices where one is allowed"
    assert not fits(draft, (STORAGE,))
    assert not fits(Draft(session_id=ONE, replies=(Reply(picked=(3,)),)), (STORAGE,))


def test_a_question_without_an_answer_is_left_out_unless_several_could_be_chosen() -> None:
    draft = Draft.blank(ONE, QUESTIONS)
    assert answers_of(QUESTIONS, draft) == (UserAnswer(question_index=1, selected_options=()),)


# ----------------------------------------------------------------------------------- on disk

DRAFT = Draft(session_id=ONE, replies=(Reply(other=True, text="half a thought \u20ac"),))


@pytest.fixture
def store(tmp_path: Path, fs: FaultyFileSystem) -> DraftStore:
    return DraftStore(tmp_path / "a" / "drafts", fs=fs)


def test_a_draft_is_kept_for_its_owner_alone(store: DraftStore) -> None:
    path = store.save(DRAFT)
    assert store.load(ONE) == DRAFT
    assert store.session_ids() == (ONE,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_empty_draft_is_none(store: DraftStore) -> None:
    store.save(DRAFT)
    store.save(Draft(session_id=ONE, replies=(Reply(text=" "),)))
    assert store.load(ONE) is None
    assert store.session_ids() == ()


def test_a_write_that_fails_keeps_the_draft_before_it(
    store: DraftStore, fs: FaultyFileSystem
) -> None:
    store.save(DRAFT)
    fs.plan = every_call_from(0, 28, ("writev",))
    with pytest.raises(WriteError):
        store.save(Draft(session_id=ONE, replies=(Reply(other=True, text="more"),)))
    with pytest.raises(WriteError):
        store.keep_unsent(ONE, "text")
    fs.plan = None
    assert store.load(ONE) == DRAFT
    assert [path.name for path in store.directory.iterdir()] == [f"{ONE}.json"]


def test_what_can_not_be_sent_is_kept_as_text_and_the_draft_goes(store: DraftStore) -> None:
    store.save(DRAFT)
    path = store.keep_unsent(ONE, "half a thought \ud800")
    assert path.read_text(encoding="utf-8") == "half a thought \\ud800"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert store.load(ONE) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2}', b"\xff", b"[" * 100_000, b'{"version": 1}']
)
def test_a_draft_that_is_none_is_set_aside_and_told(store: DraftStore, content: bytes) -> None:
    store.save(DRAFT)
    store.path_of(ONE).write_bytes(content)
    with pytest.raises(DraftUnreadable) as told:
        store.load(ONE)
    assert told.value.path.read_bytes() == content
    assert str(told.value.path) in str(told.value)
    assert store.load(ONE) is None, "the next draft has room"


def test_a_draft_is_never_read_or_written_through_a_link(store: DraftStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    store.save(DRAFT).rename(secret)
    content = secret.read_bytes()
    store.path_of(ONE).symlink_to(secret)
    with pytest.raises(DraftUnreadable, match="symbolic link"):
        store.load(ONE)
    store.path_of(ONE).symlink_to(secret)
    store.save(Draft(session_id=ONE, replies=(Reply(other=True, text="mine"),)))
    assert secret.read_bytes() == content


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ONE.upper() + "x", f"{ONE}/.."])
def test_only_ids_of_question_sessions_become_files(store: DraftStore, name: str) -> None:
    for act in (store.load, store.drop, lambda one: store.keep_unsent(one, "x")):
        with pytest.raises(ValueError, match="is not the id"):
            act(name)


def test_a_draft_that_can_not_be_written_holds_up_no_other_and_is_written_later(
    tmp_path: Path,
) -> None:
    store = DraftStore(tmp_path)
    store.path_of(ONE).mkdir()
    said: list[str] = []
    scheduled: list[Callable[[], Awaitable[None]]] = []
    cache = DraftCache(store, say=said.append, after=lambda _s, call: scheduled.append(call))
    replies = (write(STORAGE, Reply(), "text"), Reply())
    drafts = [Draft(session_id=one, replies=replies) for one in (ONE, session_id(2))]

    async def keep() -> None:
        for draft in drafts:
            cache.keep(draft)
        await scheduled.pop()()

    asyncio.run(keep())
    assert store.load(session_id(2)) == drafts[1]
    assert len(said) == 1
    store.path_of(ONE).rmdir()
    cache.save_all()
    assert (store.load(ONE), cache.lost) == (drafts[0], [])
