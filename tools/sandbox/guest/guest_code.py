"""The guest's side: the few lines that run in the interpreter around an execution's code.

An execution is one turn of an interactive interpreter that behaves like a script: the code runs as
`__main__`, nothing is echoed, its exit handlers run and its files are closed before it ends.

The first interpreter of a process compiles these lines, since only it knows the code format of its
release. All others get them as code: compiling takes longer than running them. They are one guest
program, hence one module.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

GUEST_WORKSPACE: Final = "/app"
"""Where the guest sees the workspace; also its working directory."""

SCRIPT_NAME: Final = f"{GUEST_WORKSPACE}/<script>"
"""The name of the executed code in tracebacks and `__file__`; no such file exists."""

TEMPORARY: Final = "/tmp"  # noqa: S108 (the guest's)
"""The guest's directory for files that do not outlive the execution."""

LIBRARY: Final = "/usr/local/lib"
"""The guest's path of the standard library."""

RESERVE_BYTES: Final = 5 << 19
"""Guest memory reserved for reporting that the rest is used up."""

ENTRY: Final = "__agentforge_start__"
"""The name in `__main__` of the script runner, which removes the name when it runs."""

BEFORE: Final = "__before__"
"""The name in `__main__` of the modules loaded before a template's own, while it is prepared."""

HOME_NAME: Final = ".home"
"""The guest's home, in `/tmp`; it exists from the start and is not counted."""

_HOME: Final = f"{TEMPORARY}/{HOME_NAME}"
HOME_ENVIRONMENT: Final = {"HOME": _HOME, "MPLCONFIGDIR": f"{_HOME}/matplotlib"}
"""The environment variables that point the guest to its home."""

AWAITING: Final = 0x2000
"""Makes the compiler accept top-level `await`: `ast.PyCF_ALLOW_TOP_LEVEL_AWAIT`."""

COROUTINE: Final = 0x80
"""The flag of code with a top-level await: `inspect.CO_COROUTINE`."""

_DESCRIPTORS: Final = 4

_STARTER: Final = """
import _io, atexit, gc, linecache, os, sys

# Room to print a traceback in; never written to, so it costs no memory of the host.
reserve = [_io.BufferedReader(_io.BytesIO(), RESERVE)]

class Loops:
    # A finder that finds nothing: it sees when asyncio is about to take the system's loops. They
    # make a pair of sockets, through which threads and signals end their wait; the guest has none
    # of these, and nothing but a loop itself adds to what it has to do.
    def find_spec(name, path=None, target=None):
        if name == 'asyncio.unix_events':
            from asyncio.selector_events import BaseSelectorEventLoop as Loop
            def make_no_pair(self):
                self._ssock = self._csock = None
            Loop._make_self_pipe = make_no_pair
            Loop._close_self_pipe = Loop._write_to_self = lambda self: None
        return None

def run_script(source, names):
    script = compile(source, NAME, 'exec', AWAITING, dont_inherit=True)
    if script.co_flags & COROUTINE:
        import asyncio
        asyncio.run(eval(script, names))
    else:
        exec(script, names)

def start(source, argv, inject, keep, run=run_script):
    main = sys.modules['__main__']
    names = vars(main)
    names.pop(ENTRY, None)
    if keep:
        os.chdir(WORKSPACE)
    sys.argv[:] = [NAME, *argv]
    if sys.path[:1] != [WORKSPACE]:
        sys.path.insert(0, WORKSPACE)
    getattr(linecache, '_interactive_cache', {}).clear()
    for name in [name for name in linecache.cache if name.startswith('<turn ')]:
        del linecache.cache[name]
    lines = [line + '\\n' for line in source.split('\\n')]
    linecache.cache[NAME] = (len(source), None, lines, NAME)
    main.__file__ = NAME
    if inject is not None:
        import json
        names.update(json.loads(inject))
        if not keep:
            del json
    finish(main, keep, run, source, names)

def finish(main, keep, run, *arguments):
    code = 0
    try:
        run(*arguments)
    except SystemExit as error:
        # An exit is passed on after the handlers ran; its message is printed before them.
        code = error.code
        if code is None:
            code = 0
        elif not isinstance(code, int):
            try:
                print(code, file=sys.stderr)
            except BaseException:
                pass
            code = 1
    except BaseException as error:
        # The frames of what runs the code are none of its business.
        code = 1
        reserve.clear()
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename != NAME:
            trace = trace.tb_next
        error = error.with_traceback(trace)
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        if not keep:
            end(main)
    if code:
        raise SystemExit(code)

def forget_own(added):
    # A module of the workspace comes before one of the same name, as where that is not loaded yet.
    own = set()
    for file in os.listdir(WORKSPACE):
        name, dot, kind = file.partition('.')
        if name in added and (
            kind == 'py' if dot else os.path.exists(f'{WORKSPACE}/{name}/__init__.py')
        ):
            own.add(name)
    for name in [*sys.modules] if own else ():
        if name.partition('.')[0] in own:
            del sys.modules[name]

newest = next(reversed(sys.modules))

def end(main, run_exit_handlers=atexit._run_exitfuncs, gc=gc, loaded=sys.modules,
        buffers=(_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)):
    # What the end of an interpreter does that a script can tell: handlers, then its objects.
    run_exit_handlers()
    modules = [main]
    # Of those that were there before it, nothing is touched.
    names = []
    for name in reversed(loaded):
        if name is newest:
            break
        names.append(name)
    for name in reversed(names):
        module = loaded[name]
        file = getattr(module, '__file__', None)
        if isinstance(file, str) and file.startswith(WORKSPACE + '/') and module is not main:
            modules.append(module)
    for private in (True, False):
        for module in modules:
            names = getattr(module, '__dict__', None)
            if not isinstance(names, dict):
                continue
            for name in list(names):
                if isinstance(name, str) and name != '__builtins__' and (
                    (name[:1] == '_' and name[1:2] != '_') is private
                ):
                    names[name] = None
    # Of a file in a cycle the collector may end the lowest layer first, with the data above it.
    for thing in gc.get_objects():
        if isinstance(thing, buffers):
            try:
                thing.flush()
            except BaseException:
                pass
    gc.collect()

def run_turn(text, name, run_source):
    # A text that starts with a NUL is a script and its inputs: see `GuestScript.message`.
    if text[:1] != '\\0':
        return run_source(text, name)
    _, lines, inject, *argv, source = text.split('\\0')
    if lines:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)
    vars(sys.modules['__main__'])[ENTRY](source, argv, inject or None, False)

def rehearse(rounds=12):
    # What ran before is quicker, and changes less of the memory.
    main = sys.modules['__main__']
    names, argv, path = dict(vars(main)), sys.argv[:], sys.path[:]
    told = sys.stdout, sys.stderr
    for _ in range(rounds):
        for source in ('print(1)', '1 / 0'):
            sys.stdout, sys.stderr = _io.StringIO(), _io.StringIO()
            try:
                start(source, [], None, False)
            except SystemExit:
                pass
            vars(main).clear()
            vars(main).update(names)
    sys.stdout, sys.stderr = told
    sys.argv[:], sys.path[:] = argv, path
    del linecache.cache[NAME]
    reserve.append(_io.BufferedReader(_io.BytesIO(), RESERVE))

def prepare_template():
    # Reading the turn of a script as source would take longer than the turn.
    import _reactor
    run_source = _reactor._run_turn
    _reactor._run_turn = lambda text, name: run_turn(text, name, run_source)
    rehearse()
    prepare()

def prepare():
    os.chdir(WORKSPACE)
    sys.meta_path.insert(0, Loops)
    vars(sys.modules['__main__'])[ENTRY] = start
    # A number that was in use once is given anew before one that never was. So that an execution
    # changes nothing in that, the few that it may need were all in use before.
    numbers = [os.open(LIBRARY, os.O_RDONLY) for _ in range(DESCRIPTORS)]
    for number in numbers:
        os.close(number)
    # The first traceback imports what prints it.
    told, sys.stderr = sys.stderr, _io.StringIO()
    try:
        raise RuntimeError
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr = told
    global newest
    newest = next(reversed(sys.modules))
    gc.freeze()

todo, arguments = globals().pop('TODO')
globals()[todo](*arguments)
"""

_SETTINGS: Final = {
    "__name__": "__starter__",
    "WORKSPACE": GUEST_WORKSPACE,
    "NAME": SCRIPT_NAME,
    "LIBRARY": LIBRARY,
    "ENTRY": ENTRY,
    "RESERVE": RESERVE_BYTES,
    "DESCRIPTORS": _DESCRIPTORS,
    "AWAITING": AWAITING,
    "COROUTINE": COROUTINE,
}

COMPILATION: Final = f"""
def compile_all():
    import marshal, sys
    vars(sys.modules['__main__']).pop('compile_all')
    print(marshal.dumps(compile({_STARTER!r}, '<sandbox>', 'exec')).hex())
compile_all()
"""
"""The turn that compiles this module's guest code and prints it, for `GuestCode.of`."""


class GuestCode(NamedTuple):
    """This module's guest code, compiled by the Python release that runs it.

    Attributes:
        starter: Runs a script.
    """

    starter: bytes

    @classmethod
    def of(cls, printed: bytes) -> Self:
        """Create from what the turn `COMPILATION` printed.

        Raises:
            ValueError: The bytes are not such output.
        """
        return cls(starter=bytes.fromhex(printed.decode("ascii")))

    def preparation(self) -> str:
        """Return a template's first turn; later turns may be `GuestScript.message`s."""
        return self.turn("prepare_template", ())

    def turn(self, todo: str, arguments: tuple[object, ...]) -> str:
        """Return a turn that loads the starter and calls it; it leaves no name behind."""
        settings = {**_SETTINGS, "TODO": (todo, arguments)}
        return f"exec(__import__('marshal').loads({self.starter!r}), {settings!a})"


class GuestScript(NamedTuple):
    """One execution's code and inputs.

    Attributes:
        source: The code.
        argv: Its arguments.
        inject: Variables as one JSON object, or None.
        streams: Which of "stdout" and "stderr" are forwarded as they are written.
    """

    source: str
    argv: Sequence[str] = ()
    inject: str | None = None
    streams: tuple[str, ...] = ()

    def message(self) -> str:
        """Return the turn that runs it in an interpreter started from a template; once only.

        Neither source nor inputs contain a NUL.
        """
        source = self.source.removeprefix("\ufeff")
        lines = "lines" if self.streams else ""
        return "\0".join(("", lines, self.inject or "", *self.argv, source))

    def turn(self, code: GuestCode) -> str:
        """Return the turn that runs it in an interpreter whose variables persist."""
        # The code of earlier turns may have changed anything, so send everything again.
        arguments = (self.source.removeprefix("\ufeff"), list(self.argv), self.inject, True)
        return code.turn("start", arguments)
