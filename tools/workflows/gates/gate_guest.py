"""The guest's side of a gate: runs tests and writes a machine-readable result.

It runs in the sandbox, on a copy of the files. The result is one JSON file whose name the tests do
not know. Tests run in the same interpreter, so a test that sets out to forge the result can; one
that merely ends the interpreter, prints, or changes directory leaves a result that says so or
none, and no result is no pass. A test counts as passed only after its last step, and by the
exception it raised, not by a plugin's view of it. The result also reports what was replaced in
pytest, pluggy and unittest meanwhile, the hooks by which a conftest.py decides how tests run, and
whether the component's own file was executed.

In RED the component does not exist yet. Then a placeholder replaces its module, so that test files
that import it at their top can be collected: whatever is imported from it raises
`MissingImplementation` when it is called or one of its attributes is read. That is no
`Exception`, so that no `pytest.raises(Exception)` takes it for the expected error. The result names
the tests that reached the component: that used the placeholder or, if the component partly exists,
ran its code or named what it offers.

The module is long because nearly all of it is one program, which goes into the guest as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from ..gate_port import GatePlaces

FRAMEWORKS: Final = ("pytest", "unittest")


@frozen(kw_only=True)
class TestRun:
    """The tests that a gate runs.

    Attributes:
        framework: "pytest" or "unittest".
        paths: The test files, relative to the workspace.
        module: The component's module.
        location: The component's file.
        import_root: The folder where its imports begin, "" for the workspace.
        placeholder: Whether a placeholder replaces the module while it is missing.
        report: The path of the result.
    """

    __test__ = False

    framework: str
    paths: tuple[str, ...]
    module: str
    location: str
    placeholder: bool
    report: str
    import_root: str = ""

    def code(self, places: GatePlaces) -> str:
        """Return the guest's code for a sandbox with these paths."""
        request = {
            "framework": self.framework,
            "paths": list(self.paths),
            "module": self.module,
            "location": self.location,
            "import_root": self.import_root,
            "placeholder": self.placeholder,
            "report": self.report,
            "root": places.workspace,
            "kit": places.kit,
            "scratch": places.scratch,
            "packages": places.packages,
        }
        return f"{_GUEST}\nrun({json.dumps(request)!r})\n"


def script_code(source: str, paths: Iterable[str]) -> str:
    """Return the code of a workflow's own gate; `FILES` in it is the list of files."""
    return f"FILES = {list(paths)!r}\nexec(compile({source!r}, '<gate>', 'exec'))\n"


_GUEST: Final = r"""
def run(request_text):
    import json, os, sys, time
    write, open_file, dumps, now = os.write, os.open, json.dumps, time.perf_counter
    request = json.loads(request_text)
    vars(sys.modules["__main__"]).pop("run", None)
    sys.dont_write_bytecode = True
    module, location = request["module"], request["location"]
    root = request["root"] = os.path.abspath(request["root"] or os.getcwd())
    if request["scratch"] is None:
        import tempfile
        request["scratch"] = tempfile.gettempdir()
    if root not in sys.path:
        sys.path.insert(0, root)
    if request["import_root"]:
        sys.path.insert(0, os.path.join(root, request["import_root"]))
    if request["packages"] is not None:
        sys.path.append(request["packages"])
    missing_raised, asked, executed = [], [], set()
    current, reached = [None], set()  # the test that runs, and those that used the component

    def inside(file):
        # A test that has ".." on the path imports the component as tests/../name.py.
        file = os.path.normpath(os.path.join(root, file))
        name = file[len(root) + 1 :] if file.startswith(root + "/") else ""
        return name if name and name[0] != "<" else None

    def audit(event, given):
        if event == "exec":
            executed.add(inside(getattr(given[0], "co_filename", "<")))

    sys.addaudithook(audit)

    class MissingImplementation(BaseException):
        pass

    def touch():
        reached.add(current[0])

    def missing(what):
        missing_raised.append(what)
        touch()
        return MissingImplementation(what + " is not implemented yet")

    if request["placeholder"]:
        import importlib.abc, importlib.machinery, types

        def asked_by_the_framework():
            # What pytest and unittest look at to see whether the awaited error came is no use.
            frame = sys._getframe(2)
            name = frame.f_globals.get("__name__", "").split(".")[0]
            return name in ("pytest", "_pytest", "pluggy") or (
                name == "unittest" and frame.f_code.co_name == "__exit__"
            )

        class Meta(type):
            def __call__(cls, *args, **kwargs):
                raise missing(cls.__qualname__)
            def __getattr__(cls, name):
                if name[:1] == "_":
                    raise AttributeError(name)
                raise missing(cls.__qualname__ + "." + name)

        def watched(plain):
            def method(cls, *given):
                if not asked_by_the_framework():
                    touch()
                return plain(cls, *given)
            return method

        for name, plain in (
            ("eq", lambda cls, other: cls is other),
            ("bool", lambda cls: True),
            ("instancecheck", type.__instancecheck__),
            ("subclasscheck", type.__subclasscheck__),
        ):
            setattr(Meta, "__" + name + "__", watched(plain))

        def used(cls, *given):
            raise missing(cls.__qualname__)

        # What a constant of the component may be asked for in a test; not ==, which just fails.
        for name in (
            "iter len getitem contains add radd sub rsub mul rmul truediv rtruediv floordiv "
            "rfloordiv mod rmod pow rpow lt le gt ge neg pos abs round index int float"
        ).split():
            setattr(Meta, "__" + name + "__", used)

        offered = {}

        class Placeholder(types.ModuleType):
            def __getattr__(self, name):
                if name[:1] == "_":
                    raise AttributeError(name)
                touch()  # each time, so nothing is kept in the module itself
                if name not in offered:
                    offered[name] = Meta(name, (Exception,), {"__module__": self.__name__})
                return offered[name]

        class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path=None, target=None):
                if name == module or module.startswith(name + "."):
                    asked.append(name)
                    return importlib.machinery.ModuleSpec(name, self, is_package=name != module)
            def create_module(self, spec):
                # A package above the component has nothing but what is below it.
                made = Placeholder if spec.name == module else types.ModuleType
                return made(spec.name)
            def exec_module(self, made):
                pass

        sys.meta_path.append(Finder())
        if os.path.exists(os.path.join(root, location)):
            watch = getattr(sys, "monitoring", None)  # Python 3.12 and newer

            def begun_code(code, offset):
                if inside(code.co_filename) == location:
                    touch()
                elif watch is not None:
                    return watch.DISABLE

            if watch is None:
                sys.setprofile(lambda frame, event, given: begun_code(frame.f_code, 0))
            else:
                tool = next(number for number in range(6) if watch.get_tool(number) is None)
                watch.use_tool_id(tool, "gate")
                watch.register_callback(tool, watch.events.PY_START, begun_code)
                watch.set_events(tool, watch.events.PY_START)

    def names_of(code):
        found = set(code.co_names)
        for one in code.co_consts:
            if hasattr(one, "co_names"):
                found |= names_of(one)
        return found

    def begin(nodeid, function):
        # A test that names what a component in part offers has reached it, as when it compares
        # one of its constants; of a placeholder the placeholder itself reports that.
        current[0] = nodeid
        there, function = sys.modules.get(module), getattr(function, "__func__", function)
        code, known = getattr(function, "__code__", None), getattr(function, "__globals__", {})
        if code is None or getattr(there, "__file__", None) is None:
            return
        for name in names_of(code):
            if name not in known:
                continue
            if known[name] is there or (name in vars(there) and vars(there)[name] is known[name]):
                touch()

    def end():
        current[0] = None

    collected, tests, errors, stopped, tampered = [], {}, [], [], set()
    RANK = {"unfinished": 0, "passed": 0, "skipped": 1, "failed": 2}

    def explain(error):
        names = [kind.__name__ for kind in type(error).__mro__]
        try:
            text = str(error)
        except BaseException as second:
            text = "its message can't be made: " + type(second).__name__
        found = {
            "exception": type(error).__name__,
            "kinds": names,
            "message": text[:2000],
            "missing": isinstance(error, MissingImplementation),
            "name": getattr(error, "name", None) if isinstance(error, ImportError) else None,
        }
        if isinstance(error, SyntaxError):
            found["file"] = str(error.filename or "")
            found["line"] = error.lineno
        trace, where = error.__traceback__, None
        while trace is not None:
            file = inside(trace.tb_frame.f_code.co_filename)
            if file is not None:
                where = [file, trace.tb_lineno]
            trace = trace.tb_next
        found["where"] = where
        return found

    def record(nodeid, outcome, when, seconds, error=None, text="", last=True):
        new = {"id": nodeid, "outcome": "unfinished", "when": when, "duration_s": 0.0}
        one = tests.setdefault(nodeid, new)
        one["duration_s"] = round(one["duration_s"] + seconds, 6)
        if outcome == "passed":
            if last and one["outcome"] == "unfinished":
                one["outcome"] = "passed"
        elif RANK[outcome] >= RANK[one["outcome"]] and "error" not in one:
            one["outcome"], one["when"] = outcome, when
            if error is not None:
                one["error"] = explain(error)
            if text:
                one["text"] = text[-3000:]

    framework = {}  # what the framework is made of, before any test is imported

    def members():
        from types import FunctionType
        made = (FunctionType, classmethod, staticmethod, property)
        for name, one in list(sys.modules.items()):
            if name.split(".")[0] not in ("pytest", "_pytest", "pluggy", "unittest"):
                continue
            for key, value in list(vars(one).items()):
                if isinstance(value, (type, FunctionType)):
                    yield name + "." + key, one, key, value
                if isinstance(value, type) and value.__module__ == name:
                    for inner, member in list(vars(value).items()):
                        if isinstance(member, made):
                            yield name + "." + key + "." + inner, value, inner, member

    def remember():
        for name, owner, key, value in members():
            framework[name] = (owner, key, value, getattr(value, "__code__", None))

    def compare():
        for name, (owner, key, value, code) in framework.items():
            now = vars(owner).get(key)
            if now is not value or getattr(now, "__code__", None) is not code:
                tampered.add(name + " was replaced while the tests ran")

    begun_at = now()
    given = (
        request, collected, errors, stopped, tampered, record, explain, remember, inside, begin, end
    )
    try:
        code = with_pytest(*given) if request["framework"] == "pytest" else with_unittest(*given)
    except (SystemExit, KeyboardInterrupt) as error:
        code = type(error).__name__
        stopped.append(explain(error))
    compare()
    for one in tests.values():
        one["reached"] = one["id"] in reached
    origin = getattr(sys.modules.get(module), "__file__", None)
    report = {
        "schema_version": 1,
        "framework": request["framework"],
        "code": code,
        "collected": collected,
        "tests": list(tests.values()),
        "errors": errors,
        "missing": sorted(set(missing_raised))[:100],
        "stopped": stopped[:1],
        "tampered": sorted(tampered)[:20],
        "component": {
            "asked": bool(asked),
            "executed": location in executed,
            "origin": None if origin is None else inside(origin) or origin,
        },
        "duration_s": round(now() - begun_at, 6),
    }
    data = dumps(report).encode()
    place = os.path.join(root, request["report"])
    fd = open_file(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    while data:
        data = data[write(fd, data):]
    os.close(fd)

def with_pytest(
    request, collected, errors, stopped, tampered, record, explain, remember, inside, begin, end
):
    import os, sys
    kit, root, scratch = request["kit"], request["root"], request["scratch"]
    if kit is not None:
        sys.path.insert(0, kit)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    if not os.path.exists(os.devnull):  # a guest without devices; pytest's logging opens this one
        os.devnull = os.path.join(scratch, ".null")
    import pytest
    if kit is not None:
        sys.path.remove(kit)
        sys.path.append(kit)

    # Hooks that a conftest.py may have: none of them decides whether a test is run or passed.
    harmless = {
        "pytest_addoption", "pytest_assertrepr_compare", "pytest_collection_modifyitems",
        "pytest_configure", "pytest_generate_tests", "pytest_itemcollected",
        "pytest_make_parametrize_id", "pytest_sessionfinish", "pytest_sessionstart",
        "pytest_unconfigure",
    }

    spoilt = {}  # what the fixture of a class or a file found missing, for those after the first

    class Plugin:
        def pytest_addoption(self, parser):
            # Nobody types at a gate, and the plugin whose options these are imports pdb, and pdb
            # asyncio, which takes as long as some tests; others ask for what the options say.
            parser.addoption("--pdb", dest="usepdb", action="store_true")
            parser.addoption("--pdbcls", dest="usepdb_cls")
            parser.addoption("--trace", dest="trace", action="store_true")

        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(self):
            remember()

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self, session):
            for name, caller in vars(session.config.hook).items():
                for one in caller.get_hookimpls() if name not in harmless else ():
                    code = getattr(one.function, "__code__", None)
                    file = inside(getattr(code, "co_filename", "<"))
                    if file is not None:
                        tampered.add(
                            file + " implements " + name + ", which decides how tests run; "
                            "a conftest.py may bring fixtures"
                        )

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item):
            begin(item.nodeid, getattr(item, "function", None))
            try:
                return (yield)
            finally:
                end()

        def pytest_keyboard_interrupt(self, excinfo):
            stopped.append(explain(excinfo.value))

        def pytest_internalerror(self, excinfo):
            stopped.append(explain(excinfo.value))

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_make_collect_report(self, collector):
            report = yield
            call = getattr(report, "call", None)
            if report.failed:
                error = call.excinfo.value if call is not None and call.excinfo else None
                cause = error.__cause__ if error is not None and error.__cause__ else error
                one = {"id": report.nodeid, "text": str(report.longrepr)[-3000:]}
                if cause is not None:
                    one["error"] = explain(cause)
                errors.append(one)
            elif report.skipped:
                errors.append({"id": report.nodeid, "text": "It skips itself, whole."})
            return report

        def pytest_collection_finish(self, session):
            collected.extend(item.nodeid for item in session.items)

        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            report = yield
            error = call.excinfo.value if call.excinfo is not None else None
            if error is not None and report.when == "setup":
                found = explain(error)
                if found["missing"]:
                    spoilt[item.parent.nodeid] = error
                elif found["where"] is None:
                    error = spoilt.get(item.parent.nodeid, error)
            if report.outcome == "failed" and error is None:
                text = str(report.longrepr)
                record(item.nodeid, "failed", report.when, call.duration, None, text)
            else:
                outcome = report.outcome
                if outcome == "passed" and error is not None:
                    outcome = "failed"  # somebody made a success of it
                record(
                    item.nodeid, outcome, report.when, call.duration,
                    error if outcome == "failed" else None,
                    report.longreprtext if outcome == "failed" else "",
                    report.when == "teardown",
                )
            return report

    code = pytest.main(
        [
            "-q", "--rootdir=" + root, "--capture=sys",
            "--basetemp=" + os.path.join(scratch, "pytest"),
            "--tb=line" if request["placeholder"] else "--tb=short",  # all of red fails anyway
            "--color=no", "-o", "addopts=",
            "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:debugging",
            "--continue-on-collection-errors",
            *request["paths"],
        ],
        plugins=[Plugin()],
    )
    return int(code)

def with_unittest(
    request, collected, errors, stopped, tampered, record, explain, remember, inside, begin, end
):
    import importlib.util, os, sys, time, traceback, unittest
    root = request["root"]
    remember()
    suite = unittest.TestSuite()
    loader = unittest.TestLoader()

    def ids(tests):
        for test in tests:
            if isinstance(test, unittest.TestSuite):
                yield from ids(test)
            else:
                yield test

    class SetUpFailed(Exception):
        pass

    def guarded(set_up):
        # unittest takes only an Exception for the failure of a class or a module.
        def guard():
            try:
                return set_up()
            except (Exception, KeyboardInterrupt):
                raise
            except BaseException as error:
                raise SetUpFailed(str(error)) from error
        return guard

    names = {}
    for path in request["paths"]:
        folder = os.path.dirname(os.path.join(root, path))
        if folder not in sys.path:
            sys.path.insert(0, folder)
        name = os.path.basename(path)[:-3]
        if name in sys.modules:  # the same name in another directory
            name = path[:-3].replace("/", "__")
        spec = importlib.util.spec_from_file_location(name, os.path.join(root, path))
        made = importlib.util.module_from_spec(spec)
        sys.modules[name] = made
        try:
            spec.loader.exec_module(made)
        except BaseException as error:
            text = "".join(traceback.format_exception(error))[-3000:]
            errors.append({"id": path, "text": text, "error": explain(error)})
            continue
        found = loader.loadTestsFromModule(made)
        if hasattr(made, "setUpModule"):
            made.setUpModule = guarded(made.setUpModule)
        for kind in {type(test) for test in ids(found)}:
            kind.setUpClass = staticmethod(guarded(kind.setUpClass))
        for test in ids(found):
            names[test.id()] = path + "::" + test.id().split(".", 1)[-1].replace(".", "::")
            collected.append(names[test.id()])
        suite.addTest(found)

    class Result(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            self.begun = time.perf_counter()
            method = getattr(test, getattr(test, "_testMethodName", ""), None)
            begin(names.get(test.id(), test.id()), method)
        def stopTest(self, test):
            end()
            super().stopTest(test)
        def note(self, test, outcome, err=None, text=""):
            error = err[1] if err is not None else None
            if isinstance(error, SetUpFailed):
                error = error.__cause__
            if error is not None:
                text = "".join(traceback.format_exception(error))
            seconds = time.perf_counter() - getattr(self, "begun", time.perf_counter())
            # "setUpClass (module.Class)" and "setUpModule (module)" stand for tests that never ran.
            whole = test.id().partition(" (")[2].rstrip(")") + "."
            fixture = test.id().startswith(("setUp", "tearDown")) and test.id() not in names
            meant = [name for one, name in names.items() if fixture and one.startswith(whole)]
            for name in meant or [names.get(test.id(), test.id())]:
                record(name, outcome, "call", seconds, error, text)
        def addSuccess(self, test):
            self.note(test, "passed")
        def addFailure(self, test, err):
            self.note(test, "failed", err)
        def addError(self, test, err):
            self.note(test, "failed", err)
        def addSkip(self, test, reason):
            self.note(test, "skipped", None, str(reason))
        def addExpectedFailure(self, test, err):
            self.note(test, "skipped", None, "expected to fail")
        def addUnexpectedSuccess(self, test):
            self.note(test, "failed", None, "passes, and is marked as expected to fail")
        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, "failed", err)

    result = Result()
    suite.run(result)
    return 0 if not errors else 2
"""
