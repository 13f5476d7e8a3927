"""The system call filters: what is shipped is what the rules say, and decides as they do."""

from __future__ import annotations

import pytest

from agentforge_sessions.jail import JailUnavailable, Refusal
from agentforge_sessions.jail.bubblewrap import filter_program
from tests.support.seccomp_filters import (
    ALLOW,
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    ERRNO,
    KILL,
    MACHINES,
    REFUSED,
    X32_BIT,
    Instruction,
    Machine,
    assembled,
    parsed,
    played,
    program,
)

every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda one: one.name)


@every_machine
def test_what_is_shipped_is_what_the_rules_assemble_to(machine: Machine) -> None:
    shipped = filter_program(machine.name)
    assert shipped == assembled(machine)
    assert parsed(shipped) == program(machine)


@every_machine
def test_every_jump_lands_in_the_filter_and_every_way_ends(machine: Machine) -> None:
    code = program(machine)
    assert len(code) <= 4096  # BPF_MAXINSNS
    for at, one in enumerate(code):
        assert at + 1 + max(one.when_true, one.when_false) < len(code) or at == len(code) - 1


@every_machine
def test_what_is_refused_is_refused_and_all_else_is_allowed(machine: Machine) -> None:
    code = program(machine)
    refused = {numbers[machine.column] for numbers in REFUSED.values()} - {-1}
    special = {machine.socket, machine.socketpair, machine.ioctl}
    for number in range(600):
        decided = played(code, number, machine.architecture, [1, 0])
        assert decided == (ERRNO | EPERM if number in refused else ALLOW), number
    assert not refused & special


@every_machine
def test_a_call_is_decided_in_few_steps(machine: Machine) -> None:
    """The kernel plays the filter for each call's number when a jail starts."""
    code = program(machine)
    for number in range(600):
        steps: list[Instruction] = []
        played(code, number, machine.architecture, [1, 0], steps=steps.append)
        assert len(steps) <= 24, number


@every_machine
def test_sockets_are_of_three_families(machine: Machine) -> None:
    code = program(machine)
    for call in (machine.socket, machine.socketpair):
        allowed = {
            family
            for family in range(100)
            if played(code, call, machine.architecture, [family]) == ALLOW
        }
        assert allowed == {1, 2, 10}
        decided = played(code, call, machine.architecture, [16])
        assert decided == ERRNO | EAFNOSUPPORT


@every_machine
def test_nothing_is_typed_into_terminals(machine: Machine) -> None:
    code = program(machine)
    for request, decided in ((0x5412, ERRNO | EPERM), (0x541C, ERRNO | EPERM), (0x5401, ALLOW)):
        assert played(code, machine.ioctl, machine.architecture, [0, request]) == decided
        # The kernel takes the low half of a request; so does the filter.
        high = request | (1 << 40)
        assert played(code, machine.ioctl, machine.architecture, [0, high]) == decided


def test_calls_of_other_interfaces_do_not_pass() -> None:
    intel, arm = MACHINES
    assert played(program(intel), 39, 0x40000003) == KILL  # i386
    assert played(program(intel), X32_BIT | 39, intel.architecture) == ERRNO | ENOSYS
    assert played(program(arm), 20, 0x40000028) == KILL  # 32-bit ARM


@pytest.mark.parametrize("name", ["x86_64", "AMD64", "aarch64", "arm64"])
def test_a_processor_goes_by_several_names(name: str) -> None:
    assert filter_program(name)


def test_a_processor_without_a_filter_is_refused() -> None:
    with pytest.raises(JailUnavailable) as caught:
        filter_program("riscv64")
    assert caught.value.refusal is Refusal.ARCHITECTURE
    assert "x86_64" in caught.value.remedy
