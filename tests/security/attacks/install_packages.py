"""Bring more code in."""

import subprocess
import sys

from attack_kit import attempt, verdict


def ensure():
    import ensurepip

    ensurepip.bootstrap(root="/tmp")


def pip():
    import pip

    return pip.main(["install", "x"])


def venv():
    import venv

    venv.create("/app/venv", with_pip=True)


attempt("pip", pip)
attempt("run pip", subprocess.run, [sys.executable or "python", "-m", "pip"])
attempt("ensurepip", ensure)
attempt("venv", venv)
verdict()
