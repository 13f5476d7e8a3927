"""What bubblewrap's refusals mean, and what to do about each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.jail import JailUnavailable, Refusal
from agentforge_sessions.jail.bubblewrap import VARIABLE, find_bubblewrap, refusal_of


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        (
            "bwrap: Creating new namespace failed: nesting depth or "
            "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            Refusal.NAMESPACE_LIMIT,
        ),
        (
            "bwrap: No permissions to creating new namespace, likely because the kernel does not "
            "allow non-privileged user namespaces.",
            Refusal.NOT_PERMITTED,
        ),
        ("bwrap: setting up uid map: Read-only file system", Refusal.PROC_READ_ONLY),
        ("bwrap: setting up uid map: Permission denied", Refusal.NOT_PERMITTED),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", Refusal.PROC_MASKED),
        ("bwrap: Unknown option --disable-userns", Refusal.OLD_BUBBLEWRAP),
        (
            "bwrap: Can't find source path /root/.pyenv: Permission denied",
            Refusal.FOLDER_UNREADABLE,
        ),
        (
            "bwrap: Can't find source path /home/me/p/.venv: No such file or directory",
            Refusal.FOLDER_MISSING,
        ),
        ("bwrap: prctl(PR_SET_SECCOMP) failed: Invalid argument: seccomp", Refusal.NO_SECCOMP),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", Refusal.NOT_PERMITTED),
        ("something else", Refusal.OTHER),
        ("", Refusal.OTHER),
    ],
)
def test_a_refusal_is_named_with_its_remedy(tmp_path: Path, said: str, refusal: Refusal) -> None:
    error = refusal_of(f"noise\n{said}\n" if said else "", knobs=tmp_path)
    assert error.refusal is refusal
    assert error.remedy
    assert "No command ran" in str(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root is not restricted by these settings")
@pytest.mark.parametrize(
    ("knob", "value", "refusal"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", Refusal.APPARMOR),
        ("kernel/unprivileged_userns_clone", "0", Refusal.USER_NAMESPACES_OFF),
    ],
)
def test_a_setting_of_the_kernel_says_why(
    tmp_path: Path, knob: str, value: str, refusal: Refusal
) -> None:
    (tmp_path / knob).parent.mkdir()
    (tmp_path / knob).write_text(value)
    said = "bwrap: setting up uid map: Permission denied"
    assert refusal_of(said, knobs=tmp_path).refusal is refusal


def test_the_program_that_a_variable_names_is_taken_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(program))
    assert find_bubblewrap() == program
    for bad in ("bwrap", str(tmp_path / "missing")):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(JailUnavailable) as caught:
            find_bubblewrap()
        assert caught.value.refusal is Refusal.NO_BUBBLEWRAP
