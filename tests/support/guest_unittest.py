"""Run in the guest, given as text: tests of `unittest`, with one line of JSON for each result.

The host injects:
    NAMES: The modules to load the tests of.
    PLACE: The directory that the tests make their files in.
    DONE: The tests that are left out, since it is known how they end.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import ntpath
import os
import pathlib
import posixpath
import sys
import tempfile
import traceback
import types
import unittest

given = sys.modules["__main__"].__dict__
NAMES, PLACE, DONE = given["NAMES"], given["PLACE"], frozenset(given["DONE"])
SUITE = "/suite"

# Modules that earlier releases had and the tests of some import. What uses them is sockets, which
# the guest has not, and private classes of pathlib; all else of those tests can be run.
FORMER_MODULES = ("asyncore", "asynchat", "smtpd", "pathlib._abc")
LARGEST = {"INT_MAX": (1 << 31) - 1, "LLONG_MAX": (1 << 63) - 1, "ULLONG_MAX": (1 << 64) - 1}

write = os.write  # the tests replace what they like


def tell(*record):
    line = "\n\x1e" + json.dumps(record) + "\n"
    write(1, line.encode("utf-8", "backslashreplace"))


class Told(unittest.TestResult):
    """Tells how each test ended."""

    def startTest(self, test):
        super().startTest(test)
        self.ended = None
        tell("begin", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        tell("end", test.id(), *(self.ended or ("passed", "")))

    def note(self, test, outcome, detail):
        if not isinstance(test, unittest.TestCase):  # what sets a class or a module up
            tell("end", test.id(), outcome, detail)
        elif self.ended is None or self.ended[0] == "skipped":
            self.ended = outcome, detail

    def addError(self, test, err):
        self.note(test, "failed", "".join(traceback.format_exception(*err)))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            which = subtest.id() + "\n"
            self.note(test, "failed", which + "".join(traceback.format_exception(*err)))

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addExpectedFailure(self, test, err):
        self.note(test, "passed", "")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", "it succeeds, though it is marked as one that does not")


class Former(types.ModuleType):
    """Stands for a module that is no more: each name in it is its package's, or an empty class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        package = sys.modules.get(self.__name__.rpartition(".")[0])
        return getattr(package, name, None) or type(name, (), {})


def put_former_in_place():
    for name in FORMER_MODULES:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = module = Former(name)
            package, _, last = name.rpartition(".")
            if package:
                setattr(importlib.import_module(package), last, module)
    # Private names that were there in other forms, and that the tests of a whole class begin with.
    for module, attribute, value in (
        (logging, "_acquireLock", logging._lock.acquire),
        (logging, "_releaseLock", logging._lock.release),
        (pathlib, "_posix_flavour", posixpath),
        (pathlib, "_windows_flavour", ntpath),
        (pathlib.PurePath, "_flavour", posixpath),
        (pathlib.PureWindowsPath, "_flavour", ntpath),
    ):
        if attribute not in vars(module):
            setattr(module, attribute, value)
    if "test_sqlite3" in NAMES:  # which wants no more of it than the limits of C's integers
        sys.modules["_testcapi"] = limits = types.ModuleType("_testcapi")
        vars(limits).update(LARGEST)


def link_inside(symlink):
    """What makes links as `os.symlink`, absolute targets in the tests' own directory relative.

    The tests name the targets of nearly all their links from the root, where a link of the
    sandbox is relative or none; so they take themselves to have none, and test nothing of them.
    """

    def link(src, dst, target_is_directory=False, *, dir_fd=None):
        target, at = os.fspath(src), os.path.dirname(os.path.abspath(os.fspath(dst)))
        if dir_fd is None and type(target) is type(at) and os.path.isabs(target):
            place = PLACE if isinstance(target, str) else os.fsencode(PLACE)
            if os.path.commonpath([place, target]) == place:
                src = os.path.relpath(target, os.path.realpath(at))
        return symlink(src, dst, target_is_directory, dir_fd=dir_fd)

    return link


def without_done(suite):
    kept = []
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            kept.append(without_done(each))
        elif each.id() not in DONE:
            kept.append(each)
    return type(suite)(kept)


def run():
    sys.path.insert(0, SUITE)
    os.chdir(PLACE)
    tempfile.tempdir = PLACE
    put_former_in_place()

    from test import support
    from test.support import os_helper

    support.verbose = 0
    support.use_resources = []
    # What the tests leave out for all of this platform, they do not know this host to have.
    support.is_wasi = False
    os_helper._can_symlink = True
    os.symlink = link_inside(os.symlink)
    for name in NAMES:
        try:
            suite = unittest.TestLoader().loadTestsFromName("test." + name)
        except unittest.SkipTest as reason:
            tell("end", name, "skipped", str(reason))
        else:
            without_done(suite).run(Told())


run()
tell("done")
