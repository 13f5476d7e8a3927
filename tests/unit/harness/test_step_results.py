"""The results of steps as bytes: what is recorded, and what is refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from functools import partial, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NoReturn,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import pydantic
import pytest

from agentforge_sessions.harness.steps import codec
from agentforge_sessions.harness.steps.codec import check_kind, decode, encode, result_kind
from agentforge_sessions.harness.steps.errors import ResultNotKept, ResultUnreadable
from agentforge_sessions.harness.steps.result_values import MAX_DEPTH

T = TypeVar("T")
Number = NewType("Number", int)
WORK = Path("/srv/session/workspace")


class Color(Enum):
    RED = 1
    GREEN = frozenset()


class Level(IntEnum):
    LOW = 1


class Right(Flag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Part:
    title: str
    words: int = 0
    _secret: str = attrs.field(default="", alias="secret")


@dataclass
class Outline:
    parts: list[Part]
    due: date | None = None
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(part.words for part in self.parts)


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@attrs.define
class Box(Generic[T]):
    content: T


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict):
    depth: int
    part: NotRequired[Part]


class Model(pydantic.BaseModel):
    name: str
    when: datetime
    tags: set[str] = set()


class Plain:
    pass


class Shape(Protocol):
    def area(self) -> float: ...


@dataclass(eq=False)
class Hidden:
    size: int = 0

    def grow(self) -> Hidden:
        self.more = 1
        return self

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(eq=False)
class ByIdentity:
    size: int = 0


@dataclass
class Needs:
    size: InitVar[int]


@dataclass
class Child(Tree):
    age: int = 0


def name_of(given: object) -> str:
    if type(given) is int and given > 1 << 99:
        return "large"
    return f"{given!r:.40}".partition(" at 0x")[0]  # the same in every process


def through(value: object, kind: object | None = None) -> object:
    return decode(*encode(value, kind, workspace=WORK), kind, workspace=WORK)


def refused(value: object, kind: object | None = None) -> str:
    with pytest.raises(ResultNotKept) as caught:
        encode(value, kind, workspace=WORK, step="draft")
    assert caught.value.has_run
    assert caught.value.step == "draft"
    return caught.value.reason


def unread(body: bytes | str, kind: object | None = None, name: str = "json") -> str:
    given = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(ResultUnreadable) as caught:
        decode(name, given, kind, workspace=WORK)
    return caught.value.reason


ZONE = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, None),
        (None, type(None)),
        (True, int),
        (7, float),
        (1.5, Any),
        ("ä\ud800\n$", str),
        ([1, [2.0, None], {"a": True}], list),
        ({"$": 1, "v": 2}, dict[str, int]),
        ({1: "a", (2, 3): "b"}, None),
        ({1: Part("a")}, dict[int, Part]),
        ((1, "a"), tuple[int, str]),
        ((), tuple[()]),
        ((1, 2, 3), tuple[int, ...]),
        ({3, 1}, set[int]),
        (frozenset({"b"}), frozenset[str]),
        (b"\0\xff", bytes),
        ([b"\0\xff"], list[bytes]),
        (datetime(2026, 11, 27, 1, 2, 3, 4, tzinfo=UTC), datetime),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1), None),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZONE), None),
        (date(2026, 11, 27), None),
        (time(1, 2, 3), None),
        (timedelta(days=-1, microseconds=1), None),
        (Decimal("1.50"), Decimal),
        (UUID(int=7), UUID),
        (Path("/etc/hosts"), Path),
        (Path("a/../b"), Path),
        (WORK / "out" / "report.md", Path),
        (WORK, Path),
        (Color.GREEN, Color),
        (Level.LOW, Level | None),
        (Right.READ | Right.WRITE, Right),
        (Part("a", 3, "b"), Part),
        (Outline([Part("a", 3), Part("b", 4)], date(2026, 1, 1)), Outline),
        (Tree("a", [Tree("b"), Tree("c", [Tree("d")])]), Tree),
        (Box(Part("a")), Box[Part]),
        (Box([1]), Box),
        (Point(1, 2.5), Point),
        ([Point(1)], Sequence[Point]),
        ({"depth": 1, "part": Part("a")}, Options),
        ({"depth": 1}, Options),
        ({"a": Part("a")}, Mapping[str, Part]),
        ([Part("a"), 1, "x", None], list[Part | int | str | None]),
        ([Part("a"), Point(1)], list[Part | Point]),
        ("b", Literal["a", "b"]),
        (3, Number),
        (Part("a"), Annotated[Part, "described"]),
        (Model(name="a", when=datetime(2026, 1, 1, tzinfo=UTC)), Model),
        ([Model(name="a", when=datetime(2026, 1, 1, tzinfo=UTC))], list[Model] | None),
    ],
    ids=name_of,
)
def test_a_result_is_read_back_as_it_was(value: object, kind: object | None) -> None:
    check_kind(kind)
    found = through(value, kind)
    assert found == value
    assert repr(found) == repr(value).replace("datetime.timezone.utc), tags", "TzInfo(0)), tags")
    assert type(found) is type(value)


def test_a_number_that_is_none_is_read_back() -> None:
    found = through([math.nan, math.inf, -math.inf])
    assert isinstance(found, list)
    assert math.isnan(found[0])
    assert found[1:] == [math.inf, -math.inf]
    assert math.isnan(through(Box(math.nan), Box[float]).content)  # type: ignore[attr-defined]


def test_moments_know_their_zone_again() -> None:
    later = datetime(2026, 10, 25, 2, 30, tzinfo=ZONE, fold=1)
    found = through(Box(later), Box[datetime])
    assert isinstance(found, Box)
    assert found.content.tzinfo is ZONE
    assert found.content.utcoffset() == later.utcoffset()


def test_bytes_alone_are_recorded_as_they_are() -> None:
    assert encode(b"\0a", bytes, workspace=None) == ("bytes", b"\0a")
    assert "not of type str" in refused(b"\0a", str)
    assert "not of type str" in unread(b"\0a", str, "bytes")


def test_a_record_can_be_read_by_a_person() -> None:
    kind = Outline
    _, body = encode(Outline([Part("Zürich", 3)]), kind, workspace=None)
    assert body.decode() == (
        '{"$":"class Outline","v":{"parts":[{"$":"class Part","v":{"title":"Zürich","words":3,'
        '"_secret":""}}],"due":null,"total":3}}'
    )


def test_a_set_is_recorded_in_one_order() -> None:
    words = [f"word {number}" for number in range(50)]
    _, body = encode(set(words), None, workspace=None)
    assert json.loads(body)["v"] == sorted(words)


def test_a_path_of_the_workspace_moves_with_it() -> None:
    name, body = encode([WORK / "a" / "b.md"], list[Path], workspace=WORK)
    assert decode(name, body, None, workspace=Path("/elsewhere")) == [Path("/elsewhere/a/b.md")]
    assert "none here" in _unread_without_workspace(body)
    outside = encode(WORK / ".." / "c", Path, workspace=WORK)
    assert decode(*outside, Path, workspace=Path("/elsewhere")) == WORK / ".." / "c"


def _unread_without_workspace(body: bytes) -> str:
    with pytest.raises(ResultUnreadable) as caught:
        decode("json", body, None, workspace=None)
    return caught.value.reason


def test_a_field_with_a_default_may_be_newer_than_the_record() -> None:
    body = b'{"$":"class Part","v":{"title":"a"}}'
    assert decode("json", body, Part, workspace=None) == Part("a")


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (Part("a"), None, "name its class in the annotation"),
        (
            {"a": [Part("a")]},
            dict[str, list[Any]],
            "['a'][0]: an instance of Part is not of type object",
        ),
        (Plain(), Plain, "Plain is not a class with declared fields"),
        (Plain(), None, "Plain is not a class with declared fields"),
        (Child("a"), Tree, "an instance of Child is not of type Tree"),
        (OrderedDict(a=1), None, "OrderedDict is not a class"),
        (len, None, "not a class with declared fields"),
        ((one for one in "ab"), None, "generator is not a class"),
        (["1"], list[int], "[0]: a value of type str is not of type int"),
        ((1,), tuple[int, int], "1 items are not of type tuple[int, int]"),
        ([1], tuple[int], "a value of type list is not of type tuple[int]"),
        (None, int, "None is not of type int"),
        (1.0, int, "a value of type float is not of type int"),
        ("c", Literal["a", "b"], "not of type"),
        (True, Literal[1], "not of type"),
        ({"depth": 1, "other": 2}, Options, "other"),
        ({}, Options, "depth"),
        (Hidden().grow(), Hidden, "not equal"),
        (ByIdentity(), ByIdentity, "not equal"),
        (Needs(1), Needs, "refuses its fields"),
        (1 << 20_000, None, "ValueError"),
        ([Part("a"), 1], list[Part | str], "[1]: a value of type int is not of type"),
        ([Part(1)], list[Part | str], "not of type str"),  # type: ignore[arg-type]
        (Model, None, "not a class with declared fields"),
        (Model.model_construct(name=3), Model, "Pydantic"),
    ],
    ids=name_of,
)
def test_a_result_that_can_not_be_read_back_is_refused(
    value: object, kind: object | None, reason: str
) -> None:
    assert reason in refused(value, kind)


def test_a_result_within_itself_is_refused() -> None:
    around: list[object] = []
    around.append(around)
    assert f"nested more than {MAX_DEPTH} deep" in refused(around)


def test_a_result_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "more than" in refused(bytes(codec.MAX_BODY_BYTES + 1))
    assert len(encode(bytes(codec.MAX_BODY_BYTES), None, workspace=None)[1]) > 0


def first(items: list[T]) -> T:
    return items[0]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Plain, "Plain is not a class with declared fields"),
        (list[Plain | None], "Plain is not a class with declared fields"),
        (Box[Plain], "Plain is not a class"),
        (Iterator[int], "not a class with declared fields"),
        (Callable[[int], str], "not a class with declared fields"),
        (type[int], "not a class with declared fields"),
        (Shape, "Shape is not a class"),
        (list["Part"], "a name in quotes"),
        (dict[str, "list[Part]"], "a name in quotes"),
        (Part | attrs.make_class("Part", ["other"]), "several classes named Part"),
    ],
    ids=name_of,
)
def test_an_annotation_of_which_nothing_can_be_recorded_is_refused_before_the_run(
    kind: object, reason: str
) -> None:
    with pytest.raises(ResultNotKept) as caught:
        check_kind(kind, step="draft")
    assert reason in caught.value.reason
    assert not caught.value.has_run
    assert "was not run" in str(caught.value)


@pytest.mark.parametrize("kind", [NoReturn, object, Box[T], Tree, Sequence[Any]], ids=name_of)
def test_an_annotation_of_which_something_can_be_recorded_is_accepted(kind: object) -> None:
    check_kind(kind)


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b"", None, "JSONDecodeError"),
        (b"\xff", None, "UnicodeDecodeError"),
        (b"NaN", None, "NaN is no JSON value"),
        (b"[" * 100_000, None, "nested too deeply"),
        (b"[" * 500 + b"]" * 500, list[Any], "nested more than"),
        (b"9" * 10_000, int, "ValueError"),
        (b"[1e999]", list[float], "out of range"),
        (b'{"$":"os.system","v":"x"}', None, "unknown"),
        (b'{"$":"class Plain","v":{}}', Part, "an instance of Plain is not of type Part"),
        (b'{"$":"class Part","v":{"title":"a"}}', None, "name its class"),
        (b'{"$":"class Part","v":{"title":1}}', Part, "['title']"),
        (b'{"$":"class Part","v":{"titel":"a"}}', Part, "no field titel"),
        (b'{"$":"class Part","v":{"words":1}}', Part, "refuses its fields"),
        (b'{"$":"class Part","v":[]}', Part, "no field"),
        (b'{"$":"class Color","v":"BLUE"}', Color, "BLUE"),
        (b'{"$":"class Right","v":"x"}', Right, "ValueError"),
        (b'{"$":"class Model","v":{}}', Model, "ValidationError"),
        (b'{"$":"datetime","v":"soon"}', None, "ValueError"),
        (b'{"$":"datetime","v":"2026-01-01[../../etc/passwd]"}', None, "ValueError"),
        (b'{"$":"datetime","v":"2026-01-01[No/Zone]"}', None, "No/Zone"),
        (b'{"$":"microseconds","v":"99999999999999999999999999"}', None, "OverflowError"),
        (b'{"$":"decimal","v":"x"}', None, "InvalidOperation"),
        (b'{"$":"bytes","v":"?"}', None, "Error"),
        (b'{"$":"artifact","v":"../../etc/passwd"}', None, "not a path in the workspace"),
        (b'{"$":"artifact","v":"/etc/passwd"}', None, "not a path in the workspace"),
        (b'{"$":"artifact","v":1}', None, "malformed"),
        (b'{"$":"tuple","v":"ab"}', None, "malformed"),
        (b'{"$":"dict","v":[[1]]}', None, "not of type"),
        (b'{"$":"dict","v":[[[],1]]}', None, "TypeError"),
        (b'{"$":"set","v":[[]]}', None, "TypeError"),
        (b'{"$":"tuple"}', None, "malformed"),
        (b'{"$":1,"v":1}', None, "malformed"),
        (b'{"$":[],"v":1}', Part | Point, "not of type"),
        (b"{}", Part, "a value of type dict is not of type Part"),
    ],
    ids=name_of,
)
def test_a_record_that_is_not_of_the_annotation_is_refused(
    body: bytes, kind: object | None, reason: str
) -> None:
    assert reason in unread(body, kind)


def test_a_record_of_another_codec_is_refused() -> None:
    assert "codec 'pickle' is unknown" in unread(b"", None, "pickle")


# ------------------------------------------------------------------------------- functions


def test_the_annotation_of_a_result_is_resolved() -> None:
    class Local(NamedTuple):
        size: int

    def local() -> list[Local]:
        return [Local(1)]

    async def later() -> Part: ...  # type: ignore[empty-body]

    def awaited() -> Awaitable[Part]: ...  # type: ignore[empty-body]

    @wraps(local)
    def around(*given: object) -> object:
        return local()

    class Callee:
        def __call__(self) -> Part: ...  # type: ignore[empty-body]

        def method(self) -> Options: ...  # type: ignore[empty-body]

    assert result_kind(local) == list[Local]
    assert result_kind(later) is Part
    assert result_kind(awaited) is Part
    assert result_kind(partial(partial(local))) == list[Local]
    assert result_kind(around) == list[Local]
    assert result_kind(Callee()) is Part
    assert result_kind(Callee().method) is Options
    assert result_kind(Part) is Part
    assert result_kind(lambda: 1) is None
    assert result_kind(len) is None
    assert result_kind(test_a_record_of_another_codec_is_refused) is type(None)


def test_an_annotation_that_names_nothing_is_refused_before_the_run() -> None:
    def lost() -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return None

    with pytest.raises(ResultNotKept, match="Nowhere") as caught:
        result_kind(lost, step="draft")
    assert not caught.value.has_run


def test_json_values_load_no_module_of_other_values() -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from agentforge_sessions.harness.steps.codec import decode, encode;"
        "decode(*encode({'a': [1, 2.5, None]}, dict, workspace=None), dict, workspace=None);"
        "print([one for one in ('decimal', 'uuid', 'zoneinfo', 'pydantic', 'attrs', 'dataclasses')"
        " if one in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(ran.stdout.replace("'", '"')) == []
