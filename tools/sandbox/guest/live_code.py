"""The guest's side of a durable program: module `agentforge`, and a loop that lasts.

All turns of a program run on one event loop. When nothing in it can go on before the host answers
or a longer time passes, the turn returns: between two turns, the interpreter's memory is the whole
program, and any process that has it can go on with it. A frame says what the program
waits for, and where. A plain function cannot be left in the middle; what it asks, it asks the host
at once, which answers or ends the turn (and repeats it later from its journal).

Nothing here reads a file or the time of a template, so that the memory it is prepared in is the
same bytes everywhere.
"""

from __future__ import annotations

from typing import Final

from .guest_code import (
    AWAITING,
    BEFORE,
    COROUTINE,
    ENTRY,
    GUEST_WORKSPACE,
    LIBRARY,
    RESERVE_BYTES,
    SCRIPT_NAME,
)
from .live_asyncio import ASYNCIO_RUN
from .live_requests import (
    MOST_BITS,
    MOST_DEPTH,
    MOST_FRAMES,
    MOST_NAMES,
    MOST_REQUEST_BYTES,
    MOST_REQUESTS,
    REQUESTS,
    ROOM_BYTES,
)
from .tool_frames import PROTOCOL

RESUME: Final = "resume"
RESEED: Final = "reseed"
"""What follows the NUL of a message that is no script: go on with answers; draw new chance."""

PATIENCE_SECONDS: Final = 1.0
"""How long a program that only sleeps is waited for within its turn."""

_OWN: Final = "<agentforge>"
"""The file of the driver's code; its frames are left out of tracebacks."""

_LOOP: Final = r'''
import sys

before = frozenset(sys.modules)

import _host, ast, asyncio, base64, builtins, contextvars, gc, inspect, io, itertools, json
import linecache, os, selectors, time, types, weakref
from asyncio import events, runners, tasks

main = sys.modules['__main__']
start_script = vars(main).pop(ENTRY)
starter = start_script.__globals__
reserve = starter['reserve']
context = contextvars.copy_context()  # of all turns
dumps, loads, now, sleep, call_host = json.dumps, json.loads, time.time, time.sleep, _host.call

class Unanswered(Exception):
    """A request was answered with an error."""

class Deadlock(RuntimeError):
    """A program waits for what nothing outside of it can bring."""

# ---------------------------------------------------------------- the loop

class Waits(selectors.DefaultSelector):
    # Where the loop would wait for long, or for nobody knows how long, it stops instead.
    is_idle = False
    def select(self, timeout=None):
        if self.get_map():
            return super().select(timeout)
        if timeout is None or timeout > (0 if requests else PATIENCE):
            self.is_idle = True
            loop.stop()
        elif timeout > 0:
            sleep(timeout)
        return []

def make_loop():
    global loop, waits
    waits = Waits()
    loop = asyncio.SelectorEventLoop(waits)

def run_until_idle(task):
    waits.is_idle = False
    while not (waits.is_idle or task and task.done()):
        loop.run_forever()

def proceed():
    # Go on with the script until it ends, or until it can do nothing more.
    global script
    if script is None:
        return run_until_idle(None)
    stuck = 0
    while True:
        try:
            run_until_idle(script)
        except SystemExit:
            ended, script = script, None
            if ended.done():
                ended.exception()
            else:
                ended.cancel()
                run_until_idle(ended)
            raise
        if script.done():
            break
        if requests or loop._scheduled:
            return suspend()
        if stuck == 3:
            script = None
            raise Deadlock(STUCK)
        stuck += 1
        script.cancel()
    ended, script = script, None
    try:
        ended.result()
    except asyncio.CancelledError as error:
        if stuck:
            raise Deadlock(STUCK).with_traceback(error.__traceback__) from None
        raise

STUCK = 'nothing will ever wake this program: it waits for no answer and for no time'

def suspend():
    make_room()
    flush()
    wake = None
    if loop._scheduled:
        wake = now() + max(0, loop._scheduled[0].when() - loop.time())
    said = '{"v":%d,"id":0,"op":"suspended","requests":[%s],"wake_at":%s,"where":%s}'
    asked = [text for _, text, _ in requests.values()]
    others = {task: None for _, _, task in requests.values() if task is not script}
    found = where([frame for task in (script, *others) for frame in stack_of(task)])
    call_host((said % (PROTOCOL, ','.join(asked), dumps(wake), found)).encode())

def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
'''

_TURNS: Final = r"""
# ---------------------------------------------------------------- turns

def run_script(source, names):
    global script
    if loop.is_closed():
        make_loop()
    try:
        code = compiled(source, names)
        if not code.co_flags & COROUTINE:
            return context.run(exec, code, names)
        script = loop.create_task(eval(code, names), name='script', context=context)
        script.add_done_callback(lambda _: loop.stop())
        proceed()
    except BaseException as error:
        without_own_frames(error)
        raise

def without_own_frames(error):
    todo, seen = [error], set()
    while todo:
        error = todo.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        todo += [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            todo += error.exceptions
        trace, shown = error.__traceback__, []
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != OWN:
                shown.append(trace)
            trace = trace.tb_next
        for one, other in zip(shown, [*shown[1:], None]):
            one.tb_next = other
        error.__traceback__ = shown[0] if shown else None

def go_on(answers):
    for number, answer in answers.items():
        future = requests.get(int(number), (None,))[0]
        if future is None or future.done():
            continue
        if 'error' in answer:
            future.set_exception(Unanswered(answer['error']))
        else:
            future.set_result(decoded(answer.get('value')))
    try:
        proceed()
    except BaseException as error:
        without_own_frames(error)
        raise

def start(lines, inject, *rest):
    global added
    *argv, source = rest
    if lines:
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)
    if added:
        starter['forget_own'](added)
        added = ()
        reseed()
    start_script(source, argv, inject or None, True, run_script)

def reseed():
    # What draws chance where it is loaded draws it again.
    for name, seed in (('random', ()), ('numpy.random', ([*os.urandom(32)],))):
        module = sys.modules.get(name)
        if str(getattr(module, '__file__', None)).startswith(LIBRARY):
            module.seed(*seed)
    if 'tempfile' in sys.modules:
        sys.modules['tempfile']._name_sequence = None

def run_turn(text, name):
    if text[:1] != '\0':
        return run_source(text, name)
    if not reserve:
        try:
            reserve.append(io.BufferedReader(io.BytesIO(), RESERVE))
        except MemoryError:
            pass
    _, kind, *rest = text.split('\0')
    if kind == RESUME:
        starter['finish'](main, True, go_on, loads(rest[0])['answers'])
    elif kind == RESEED:
        reseed()
    else:
        start(kind, *rest)

# ---------------------------------------------------------------- the template

def rehearse():
    # What ran before is quicker, and changes less of the memory.
    global numbers
    names, argv, path = dict(vars(main)), sys.argv[:], sys.path[:]
    was = sys.stdout, sys.stderr
    for _ in range(8):
        for source, *answers in REHEARSED:
            sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
            messages = ['\0\0\0' + source]
            messages += ['\0%s\0%s' % (RESUME, dumps({'answers': each})) for each in answers]
            for message in messages:
                try:
                    run_turn(message, '')
                except SystemExit:
                    pass
            vars(main).clear()
            vars(main).update(names)
            numbers = itertools.count(1)
    sys.stdout, sys.stderr = was
    sys.argv[:], sys.path[:] = argv, path
    linecache.cache.pop(NAME, None)

REHEARSED = (
    ('print(1)',),
    ('1 / 0',),
    ('import asyncio\nasync def main():\n    await asyncio.sleep(0)\nasyncio.run(main())',),
    ('import asyncio\nawait asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))\n1 / 0',),
    (
        'import asyncio\nfrom agentforge import ask, call, checkpoint\n'
        'async def main():\n    async with asyncio.timeout(60), asyncio.TaskGroup() as group:\n'
        '        for each in (ask("x", options=["a"]), call("x", y=1), asyncio.sleep(0)):\n'
        '            group.create_task(each)\n'
        'await main()\nawait checkpoint()',
        {1: {'value': 'a'}, 2: {'error': 'x'}},
    ),
    ('from agentforge import ask\ndef main():\n    return ask("Deploy?")\nprint(main())',),
    ('from agentforge import ask\nx = await ask("Deploy?")\nprint(x)', {1: {'value': 'yes'}}),
)

def prepare():
    global run_source, added
    import _reactor  # the guest's own: it has each turn run
    module = types.ModuleType('agentforge', 'What a durable program asks its host for.')
    offered = (agent, ask, call, checkpoint, gate, sleep_until, Unanswered, Deadlock)
    for each in offered:
        each.__module__ = 'agentforge'
        setattr(module, each.__name__, each)
    module.__all__ = [each.__name__ for each in offered]
    module._run_here = run_here
    sys.modules['agentforge'] = module
    builtins.input = input
    asyncio.run = runners.run = run_nested
    make_loop()
    run_source, _reactor._run_turn = _reactor._run_turn, run_turn
    added = ()
    rehearse()
    added = frozenset(sys.modules) - vars(main).pop(BEFORE, before) - {'agentforge'}
    added = {name for name in added if '.' not in name}
    gc.collect()
    gc.freeze()

prepare()
"""

_SETTINGS: Final = {
    "__name__": "agentforge",
    "AWAITING": AWAITING,
    "BEFORE": BEFORE,
    "COROUTINE": COROUTINE,
    "ENTRY": ENTRY,
    "LIBRARY": LIBRARY,
    "MOST_BITS": MOST_BITS,
    "MOST_BYTES": MOST_REQUEST_BYTES,
    "MOST_DEPTH": MOST_DEPTH,
    "MOST_FRAMES": MOST_FRAMES,
    "MOST_NAMES": MOST_NAMES,
    "MOST_REQUESTS": MOST_REQUESTS,
    "NAME": SCRIPT_NAME,
    "OWN": _OWN,
    "PATIENCE": PATIENCE_SECONDS,
    "PROTOCOL": PROTOCOL,
    "RESEED": RESEED,
    "RESERVE": RESERVE_BYTES,
    "RESUME": RESUME,
    "ROOM": ROOM_BYTES,
    "WORKSPACE": GUEST_WORKSPACE,
}

_DRIVER: Final = _LOOP + REQUESTS + ASYNCIO_RUN + _TURNS

LIVE_PREPARATION: Final = f"exec(compile({_DRIVER!r}, {_OWN!r}, 'exec'), {_SETTINGS!a})"
"""The turn that makes a prepared interpreter one for durable programs."""
