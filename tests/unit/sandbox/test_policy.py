"""What an execution policy takes and refuses."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.sandbox import ExecutionPolicy, InvalidPolicy, ReadOnlyMount, SandboxError

RANGES = {
    "fuel_budget": (1, 2**63 - 1),
    "memory_bytes": (64 << 20, 4 << 30),
    "output_bytes": (0, 1 << 30),
    "open_files": (16, 65_536),
    "workspace_bytes": (1 << 20, 1 << 50),
    "workspace_files": (1, 10**6),
    "file_bytes": (1 << 10, 4 << 30),
    "temporary_bytes": (1 << 20, 4 << 30),
    "file_calls": (1, 10**9),
    "host_bytes": (4 << 20, 4 << 30),
}


def faults(**values: object) -> tuple[str, ...]:
    with pytest.raises(InvalidPolicy) as caught:
        ExecutionPolicy(**values)  # type: ignore[arg-type]
    return caught.value.faults


def test_the_default_policy_has_every_limit() -> None:
    policy = ExecutionPolicy()
    assert policy.deadline_s == 60.0
    assert policy.memory_bytes == 1 << 30
    assert policy.fuel_budget == 10**12
    assert policy.output_bytes == 4 << 20
    assert policy.open_files == 256
    assert policy.environment == {"MPLBACKEND": "Agg"}
    assert policy.workspace_bytes == 1 << 30
    assert policy.workspace_files == 20_000
    assert policy.file_bytes == 256 << 20
    assert policy.temporary_bytes == 1 << 30
    assert policy.file_calls == 1_000_000
    assert policy.host_bytes == 64 << 20
    assert policy.mounts == ()
    assert policy.sync_files is False


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ExecutionPolicy().fuel_budget = 1  # type: ignore[misc]


def test_a_policy_takes_keywords_only() -> None:
    with pytest.raises(TypeError):
        ExecutionPolicy(1)  # type: ignore[misc]


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, b"1", math.nan])
def test_an_integer_limit_takes_integers_only(name: str, value: object) -> None:
    (fault,) = faults(**{name: value})
    assert fault.startswith(f"{name} must be an integer")


@pytest.mark.parametrize("name", RANGES)
def test_an_integer_limit_takes_both_ends_of_its_range_and_nothing_beyond(name: str) -> None:
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(ExecutionPolicy(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in (low - 1, high + 1, -(10**400), 10**400):
        (fault,) = faults(**{name: value})
        assert f"{name} must be from {low} to {high}" in fault
        assert len(fault) < 200


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_whether_files_are_synced_is_yes_or_no(value: object) -> None:
    (fault,) = faults(sync_files=value)
    assert fault.startswith("sync_files must be True or False, not ")


@pytest.mark.parametrize("value", [1, 0.01, 86_400, 86_400.0])
def test_a_deadline_is_any_number_of_seconds_up_to_a_day(value: float) -> None:
    assert ExecutionPolicy(deadline_s=value).deadline_s == value


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (0, "above 0"),
        (0.0, "above 0"),
        (-1.5, "above 0"),
        (86_400.1, "at most 86400"),
        (10**400, "at most 86400"),
        (True, "number"),
        ("60", "number"),
        (None, "number"),
        (1j, "number"),
    ],
)
def test_a_deadline_that_is_no_deadline_is_refused(value: object, word: str) -> None:
    (fault,) = faults(deadline_s=value)
    assert fault.startswith("deadline_s")
    assert word in fault


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        (None, "must be a mapping"),
        ([("A", "b")], "must be a mapping"),
        ({1: "x"}, "environment name must be a str"),
        ({"": "x"}, "empty or contains"),
        ({"A=B": "x"}, "empty or contains"),
        ({"A\0": "x"}, "NUL"),
        ({"A\ud800": "x"}, "lone surrogate at index 1"),
        ({"A": 1}, "value of 'A' must be a str"),
        ({"A": "x\0"}, "NUL"),
        ({"A": "\udfff"}, "lone surrogate at index 0"),
    ],
)
def test_an_environment_the_guest_would_see_differently_is_refused(
    environment: object, word: str
) -> None:
    (fault,) = faults(environment=environment)
    assert word in fault


def test_the_value_of_a_variable_is_never_shown() -> None:
    (fault,) = faults(environment={"TOKEN": "hunter2\0"})
    assert "hunter2" not in fault
    assert "TOKEN" in fault


def test_every_fault_is_told_at_once_in_the_order_of_the_fields() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        ExecutionPolicy(
            fuel_budget=0,
            deadline_s=math.nan,
            memory_bytes=True,
            output_bytes=-1,
            open_files=1,
            environment={"": "", "A": "\0"},
        )
    error = caught.value
    assert [fault.split()[0] for fault in error.faults[:5]] == [
        "fuel_budget",
        "deadline_s",
        "memory_bytes",
        "output_bytes",
        "open_files",
    ]
    assert len(error.faults) == 7
    assert all(fault in str(error) for fault in error.faults)
    assert isinstance(error, ValueError)
    assert isinstance(error, SandboxError)


@pytest.mark.parametrize(
    ("mounts", "words"),
    [
        ([], ["must be a tuple"]),
        (None, ["mounts must be a tuple"]),
        (("x",), ["mounts[0] must be a ReadOnlyMount"]),
        ((ReadOnlyMount("/x", "/y"),), ["source must be a Path"]),  # type: ignore[arg-type]
        ((ReadOnlyMount(Path("x"), "/y"),), ["source must be an absolute path"]),
        ((ReadOnlyMount(Path("/x\0"), "/y"),), ["source must be an absolute path"]),
        ((ReadOnlyMount(Path("/x"), 3),), ["target must be a str"]),  # type: ignore[arg-type]
        ((ReadOnlyMount(Path("/x"), "/a\0"),), ["contains a NUL"]),
        ((ReadOnlyMount(Path("/x"), "/" + "a" * 1024),), ["longer than 1024"]),
        (
            (ReadOnlyMount(Path("/x"), "/a"), ReadOnlyMount(Path("/x"), "/a/b")),
            ["overlaps another"],
        ),
        (
            (ReadOnlyMount(Path("x"), "/app"), ReadOnlyMount(Path("/x"), "b")),
            ["absolute", "sandbox's own", "absolute path in its simplest"],
        ),
        (tuple(ReadOnlyMount(Path("/x"), f"/{i}") for i in range(17)), ["at most 16"]),
    ],
)
def test_a_mount_that_cannot_be_made_is_refused(mounts: object, words: list[str]) -> None:
    found = faults(mounts=mounts)
    assert len(found) == len(words)
    for fault, word in zip(found, words, strict=True):
        assert word in fault


@pytest.mark.parametrize(
    "target",
    [
        *("", "/", "a", "//a", "/a/", "/a/../b", "/a/./b", "/app", "/app/x", "/usr"),
        *("/usr/local/x", "/tmp", "/tmp/x", "/run", "/run/agentforge"),
    ],
)
def test_a_mount_is_not_in_the_way_of_the_sandbox_itself(target: str) -> None:
    assert len(faults(mounts=(ReadOnlyMount(Path("/x"), target),))) == 1


def test_a_policy_with_mounts_can_be_compared_and_hashed() -> None:
    one, two = (ExecutionPolicy(mounts=(ReadOnlyMount(Path("/x"), "/data"),)) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != ExecutionPolicy()


def test_the_environment_is_a_copy() -> None:
    given_environment = {"A": "b"}
    policy = ExecutionPolicy(environment=given_environment)
    given_environment["A"] = "other"
    assert policy.environment == {"A": "b"}
    assert ExecutionPolicy(environment=MappingProxyType({"A": "b"})) == policy
    assert hash(policy) == hash(ExecutionPolicy(environment={"A": "b"}))


TEXT = st.text(alphabet="aB=\0 é\ud800", max_size=4)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.one_of(
                st.integers(),
                st.floats(),
                st.booleans(),
                st.none(),
                TEXT,
                st.dictionaries(TEXT, TEXT, max_size=2),
            )
            for name in (
                "fuel_budget",
                "deadline_s",
                "memory_bytes",
                "output_bytes",
                "open_files",
                "environment",
            )
        },
    )
)
def test_a_policy_is_made_as_asked_or_refused_with_its_faults(values: dict[str, object]) -> None:
    try:
        policy = ExecutionPolicy(**values)  # type: ignore[arg-type]
    except InvalidPolicy as error:
        assert error.faults  # noqa: PT017 (either outcome is right, each with its own proof)
    else:
        for name, value in values.items():
            assert getattr(policy, name) == value
            assert not isinstance(value, bool)
