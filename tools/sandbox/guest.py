"""The guest's side: the few lines that run in the interpreter around an execution's code.

An execution is one turn of an interactive interpreter, made to behave as a script: the code runs
as `__main__`, nothing is echoed, its exit handlers run and its files are closed before it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import frozen

GUEST_WORKSPACE: Final = "/app"
"""Where the guest sees the workspace; also its working directory."""

SCRIPT_NAME: Final = f"{GUEST_WORKSPACE}/<script>"
"""The name of the executed code in tracebacks and `__file__`; no such file exists."""

STREAM_MOUNT: Final = "/run/agentforge"
"""Where the guest hands on its output as it comes, when someone wants it."""

_ENTRY: Final = "__agentforge_start__"

_STARTER: Final = '''
import os, sys

def start(source, argv, inject, streams, keep):
    main = sys.modules['__main__']
    names = vars(main)
    names.pop(ENTRY, None)
    os.chdir(WORKSPACE)
    sys.argv[:] = [NAME, *argv]
    if sys.path[:1] != [WORKSPACE]:
        sys.path.insert(0, WORKSPACE)
    import linecache
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
    if streams:
        tee(streams)
    code = 0
    try:
        exec(compile(source, NAME, 'exec', dont_inherit=True), names)
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
        # The first frame is this function's, which is none of the code's business.
        code = 1
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        if not keep:
            end(main)
    if code:
        raise SystemExit(code)

import _io, atexit, gc

def end(main, run_exit_handlers=atexit._run_exitfuncs, gc=gc,
        buffers=(_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)):
    """What the end of an interpreter does that a script can tell: handlers, then its objects."""
    run_exit_handlers()
    modules = [main]
    for module in list(sys.modules.values()):
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

def tee(streams):
    """Have what is printed handed to the host as it comes, besides where it always goes."""
    import io

    class Tee(io.RawIOBase):
        def __init__(self, fd, path):
            self.number = fd
            self.name = path
            self.copy = os.open(path, os.O_WRONLY | os.O_CREAT)

        def writable(self):
            return True

        def fileno(self):
            return self.number

        def write(self, data):
            data = bytes(data)
            count = os.write(self.number, data)
            try:
                os.ftruncate(self.copy, 0)
                os.lseek(self.copy, 0, 0)
                os.write(self.copy, data[:count])
                os.fsync(self.copy)
            except OSError:
                pass
            return count

    for number, name in ((1, 'stdout'), (2, 'stderr')):
        if name in streams:
            errors = getattr(sys, name).errors
            stream = io.TextIOWrapper(
                io.BufferedWriter(Tee(number, MOUNT + '/' + name)),
                encoding='utf-8', errors=errors, line_buffering=True,
            )
            setattr(sys, name, stream)
            setattr(sys, '__' + name + '__', stream)
'''

_SETTINGS: Final = {
    "__name__": "__starter__",
    "WORKSPACE": GUEST_WORKSPACE,
    "NAME": SCRIPT_NAME,
    "MOUNT": STREAM_MOUNT,
    "ENTRY": _ENTRY,
}

PREPARATION: Final = f"""
def prepare():
    settings = {_SETTINGS!r}
    exec({_STARTER!r}, settings)
    import gc, sys
    names = vars(sys.modules['__main__'])
    names.pop('prepare')
    names[{_ENTRY!r}] = settings['start']
    gc.collect()
    gc.freeze()
prepare()
"""
"""The first turn of an interpreter, before anything of an execution is known."""


@frozen(kw_only=True)
class Script:
    """One execution's code and what it is given.

    Attributes:
        source: The code.
        argv: Its arguments.
        inject: Variables as one JSON object, or None.
        streams: Which of "stdout" and "stderr" are handed on as they come.
    """

    source: str
    argv: Sequence[str] = ()
    inject: str | None = None
    streams: tuple[str, ...] = ()

    def _arguments(self, *, keep: bool) -> tuple[object, ...]:
        return (
            self.source.removeprefix("\ufeff"),
            list(self.argv),
            self.inject,
            self.streams,
            keep,
        )

    def turn(self, *, keep: bool) -> str:
        """The turn that runs it in a prepared interpreter.

        Args:
            keep: Whether the interpreter and its variables are used again.
        """
        if not keep:
            return f"{_ENTRY}(*{self._arguments(keep=False)!a})"
        # The code of earlier turns may have done anything to what it found; bring it all anew.
        return (
            "def __agentforge_turn__():\n"
            "    import sys\n"
            "    vars(sys.modules['__main__']).pop('__agentforge_turn__', None)\n"
            f"    settings = {_SETTINGS!r}\n"
            f"    exec({_STARTER!r}, settings)\n"
            f"    settings['start'](*{self._arguments(keep=True)!a})\n"
            "__agentforge_turn__()\n"
        )

    def command(self) -> tuple[list[str], bytes]:
        """The arguments and the standard input of a fresh interpreter that runs it.

        The code comes first on standard input, its length in the arguments, so it needs no file
        and no command line; what follows it is the code's own input. It is read past `sys.stdin`,
        whose buffer must not swallow a byte of that input.
        """
        arguments = ascii(self._arguments(keep=False)).encode("ascii")
        return ["-c", _COMMAND, str(len(arguments))], arguments


_COMMAND: Final = f"""
def run():
    import os, sys
    size = int(sys.argv[1])
    chunks = []
    while size:
        chunk = os.read(0, min(size, 1 << 20))
        if not chunk:
            sys.exit('the code was cut off on its way into the sandbox')
        chunks.append(chunk)
        size -= len(chunk)
    arguments = eval(b''.join(chunks).decode('ascii'), {{}})
    del chunks
    settings = {_SETTINGS!r}
    exec({_STARTER!r}, settings)
    vars(sys.modules['__main__']).pop('run')
    settings['start'](*arguments)
run()
"""
