"""Packages of the public indexes, for tests: pinned, fetched once, kept below the temporary folder.

They are fetched by pip and npm, as the machine has these configured; where that can't be done, the
test that asks is skipped with the reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

_FETCH_S: Final = 240.0
CACHE: Final = Path(tempfile.gettempdir()) / f"agentforge-test-packages-{os.geteuid()}"
"""Where what was fetched is kept for later runs."""


@frozen
class IndexPackage:
    """A file of an index.

    Attributes:
        requirement: What is asked for, with its version.
        file: The file's name there.
        sha256: What it holds.
    """

    requirement: str
    file: str
    sha256: str

    def fetched(self) -> Path:
        """Return the file; the first test on a machine fetches it."""
        place = CACHE / self.file
        if not self._is_at(place):
            CACHE.mkdir(mode=0o700, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                self._fetch(Path(folder))
                if not self._is_at(Path(folder) / self.file):
                    pytest.skip(f"{self.requirement} of this machine's index is another file")
                (Path(folder) / self.file).replace(place)
        return place

    def extracted(self, folder: Path) -> Path:
        """Put what is in it into a new folder, without the folder that all of it is in."""
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            with tarfile.open(self.fetched()) as archive:
                archive.extractall(scratch, filter="data")
            (whole,) = Path(scratch).iterdir()
            whole.rename(folder)
        return folder

    def _is_at(self, place: Path) -> bool:
        try:
            return hashlib.sha256(place.read_bytes()).hexdigest() == self.sha256
        except OSError:
            return False

    def _fetch(self, folder: Path) -> None:
        command = self._command(folder)
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=_FETCH_S, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"{self.requirement} was not fetched within {_FETCH_S:.0f} s")
        if done.returncode:
            why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            pytest.skip(f"{self.requirement} can't be fetched here: {' '.join(why)}")

    def _command(self, folder: Path) -> list[str]:
        if self.file.endswith(".tgz"):
            npm = shutil.which("npm")
            if npm is None:
                pytest.skip("npm is not installed")
            return [npm, "pack", "--silent", "--fetch-retries=1", self.requirement]
        kind = "--only-binary" if self.file.endswith(".whl") else "--no-binary"
        pip = [sys.executable, "-m", "pip", *("--retries", "1", "--timeout", "30")]
        what = ["--no-deps", kind, ":all:", "--dest", str(folder), self.requirement]
        return [*pip, "download", "--quiet", *what]
