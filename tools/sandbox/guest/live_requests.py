"""What a durable program asks its host for, and where it is; a part of the guest's driver.

Requests of coroutines wait in the loop, beside each other. Where a program waits is shown without
running any of its code: values have short forms of their own here, and instances only their class.
"""

from __future__ import annotations

from typing import Final

MOST_REQUESTS: Final = 1000
MOST_REQUEST_BYTES: Final = 768 << 10
"""How many requests may be open at once, and how long they may be together."""

MOST_DEPTH: Final = 50
MOST_BITS: Final = 200
"""How deep a request may nest, and how large its integers may be: the host takes a little more."""

MOST_FRAMES: Final = 16
MOST_NAMES: Final = 16
"""How many frames of a waiting program are shown, and how many variables of each."""

ROOM_BYTES: Final = 1 << 18
"""How much memory must be free for a request; else the reserve is given up for it."""

REQUESTS: Final = r'''
# ---------------------------------------------------------------- requests

requests = {}
script = None
numbers = itertools.count(1)

def encoded(number, kind, said):
    try:
        text = dumps({'id': number, 'kind': kind, **plain_value(said)}, allow_nan=False)
    except (TypeError, ValueError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        raise wrong(f'a request cannot hold that: {error}') from None
    if len(text) > MOST_BYTES:
        raise ValueError(f'a request of {len(text)} bytes; at most {MOST_BYTES}')
    return text

def plain_value(value, depth=0):
    # What the host takes, and nothing that it would refuse.
    if depth > MOST_DEPTH:
        raise ValueError(f'it nests deeper than {MOST_DEPTH} levels')
    match value:
        case str():
            value.encode()
        case int() if value.bit_length() > MOST_BITS:
            raise ValueError(f'an integer of {value.bit_length()} bits; at most {MOST_BITS}')
        case None | int() | float():
            pass
        case bytes() | bytearray():
            return {'$bytes': base64.b64encode(value).decode()}
        case list() | tuple():
            return [plain_value(each, depth + 1) for each in value]
        case dict():
            if not all(isinstance(name, str) for name in value) or set(value) == {'$bytes'}:
                raise TypeError('the keys must be texts, and not the one of bytes')
            return {name: plain_value(each, depth + 1) for name, each in value.items()}
        case _:
            raise TypeError(f'a {type(value).__name__} has no form in JSON')
    return value

def make_room():
    # Even with its memory full, a program can say what it waits for.
    try:
        io.BufferedReader(io.BytesIO(), ROOM)
    except MemoryError:
        reserve.clear()

def decoded(value):
    if type(value) is dict:
        if set(value) == {'$bytes'}:
            return base64.b64decode(value['$bytes'])
        return {name: decoded(each) for name, each in value.items()}
    return [decoded(each) for each in value] if type(value) is list else value

def at_once(kind, said):
    # Of a plain function: the host answers within the call, or ends the turn.
    flush()
    number = next(numbers)
    text = encoded(number, kind, said)
    frame, frames = sys._getframe(1), []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    said = '{"v":%d,"op":"request",%s,"where":%s}' % (PROTOCOL, text[1:-1], where(frames[::-1]))
    try:
        answer = loads(call_host(said.encode()))
    except OSError as error:
        raise Unanswered(f'the host takes no requests ({error})') from None
    if not answer['ok']:
        raise Unanswered(answer['error']['message'])
    return decoded(answer['value'])

async def answer_to(kind, said):
    if events.get_running_loop() is not loop:
        return at_once(kind, said)
    number = next(numbers)
    text = encoded(number, kind, said)
    if len(requests) >= MOST_REQUESTS:
        raise RuntimeError(f'{len(requests)} requests are open; no more are possible')
    if sum(len(each) for _, each, _ in requests.values()) + len(text) > MOST_BYTES:
        raise RuntimeError(f'the open requests would have more than {MOST_BYTES} bytes in all')
    future = loop.create_future()
    requests[number] = future, text, asyncio.current_task()
    try:
        while kind == 'sleep' and not future.done():
            left = said['until'] - now()
            if left <= 0:
                return None
            await asyncio.wait([future], timeout=left)
        return await future
    finally:
        requests.pop(number, None)

def requested(kind, said):
    make_room()
    if awaits(sys._getframe(2)):
        return named(answer_to(kind, said), kind)
    return at_once(kind, said)

def named(coroutine, name):
    # Where it is forgotten to be awaited, that is said of what was called.
    coroutine.__name__ = coroutine.__qualname__ = name
    return coroutine

def awaits(frame):
    # Whether what is called by a frame can be awaited there. Of a generator expression or a lambda,
    # it is the function around it that matters.
    while frame is not None and frame.f_code.co_name in ('<genexpr>', '<lambda>'):
        frame = frame.f_back
    if frame is None or frame.f_code in plain:
        return False
    return bool(frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))

def ask(question, *, options=None, title=None, multi_select=False):
    """Ask a person; return the answer, to be awaited in a coroutine."""
    return requested('ask', {
        'question': text_of('question', question),
        'options': [text_of('option', each) for each in options or ()],
        'title': None if title is None else text_of('title', title),
        'multi_select': bool(multi_select),
    })

def call(tool, /, **arguments):
    """Have a call made outside; return its result, to be awaited in a coroutine."""
    return requested('call', {'tool': text_of('tool', tool), 'arguments': arguments})

def agent(prompt, **options):
    """Have an agent do a piece of work; return what came of it, to be awaited in a coroutine."""
    said = {'prompt': text_of('prompt', prompt), **options}
    said = {name: value for name, value in said.items() if value is not None}
    return requested('call', {'tool': 'agent', 'arguments': said})

def gate(kind='tests_pass', **options):
    """Have a gate judge the work; return what it found, to be awaited in a coroutine."""
    return requested('call', {'tool': 'gate', 'arguments': {'kind': kind, **options}})

def sleep_until(moment):
    """Sleep until a time, a datetime or seconds since 1970; to be awaited in a coroutine."""
    until = float(moment.timestamp() if hasattr(moment, 'timestamp') else moment)
    said, left = {'until': until}, max(0, until - now())
    if not awaits(sys._getframe(1)):
        return sleep(left) if left <= PATIENCE else at_once('sleep', said)
    waiting = asyncio.sleep(left) if left <= PATIENCE else answer_to('sleep', said)
    return named(waiting, 'sleep_until')

def checkpoint(name=None):
    """Have the program saved now, with a name if there is one; may be awaited in a coroutine."""
    said = {'name': None if name is None else text_of('name', name)}
    if not awaits(sys._getframe(1)):
        return at_once('checkpoint', said)
    async def saved():
        return at_once('checkpoint', said)
    return named(saved(), 'checkpoint')

def text_of(what, value):
    if isinstance(value, str):
        return value
    raise TypeError(f'the {what} must be a str, not {type(value).__name__}')

read_input, own_stdin = builtins.input, sys.stdin

def input(prompt='', /):
    """Read a line from standard input; where that ends, it is a question to a person."""
    if sys.stdin is not own_stdin:
        return read_input(prompt)
    prompt = str(prompt)
    sys.stdout.write(prompt)
    sys.stdout.flush()
    line = own_stdin.readline()
    if line:
        return line.removesuffix('\n')
    try:
        answer = at_once('input', {'question': prompt})
    except Unanswered as error:
        raise EOFError(str(error)) from None
    return str(answer)

# ---------------------------------------------------------------- where it is

def stack_of(task):
    here, frames = task.get_coro(), []
    while type(here) in CHAINED:
        prefix = CHAINED[type(here)]
        frames.append(getattr(here, prefix + 'frame'))
        here = getattr(here, prefix + ('yieldfrom' if prefix == 'gi_' else 'await'))
    return [frame for frame in frames if frame is not None]

CHAINED = {types.CoroutineType: 'cr_', types.GeneratorType: 'gi_', types.AsyncGeneratorType: 'ag_'}

def where(frames):
    # JSON of the frames of the program's own code, the innermost last.
    shown = [frame for frame in frames if frame.f_code.co_filename.startswith(WORKSPACE + '/')]
    return dumps([
        {
            'file': frame.f_code.co_filename[:300],
            'line': frame.f_lineno,
            'function': frame.f_code.co_qualname[:100],
            'names': names_in(frame),
        }
        for frame in shown[-MOST_FRAMES:]
    ])

def names_in(frame):
    found = {}
    for name, value in reversed([*frame.f_locals.items()]):
        if len(found) == MOST_NAMES:
            break
        if type(name) is str and name[:2] != '__' and not issubclass(type(value), NOT_SHOWN):
            found[name[:60]] = short(value)
    return dict(reversed(found.items()))

NOT_SHOWN = types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type

def short(value, depth=2):
    # The form of a value, without running any code of its class.
    kind = type(value)
    if kind is int and value.bit_length() > 128:
        return f'<int of {value.bit_length()} bits>'
    if kind in (str, bytes, bytearray):
        return repr(value[:60]) + ('...' if len(value) > 60 else '')
    if kind in (int, float, complex, bool, type(None)):
        return repr(value)
    if kind in BRACKETS:
        left, right = BRACKETS[kind]
        if not value or depth == 0:
            return left + ('...' if value else '') + right
        if kind is dict:
            parts = [
                f'{short(name, depth - 1)}: {short(each, depth - 1)}'
                for name, each in itertools.islice(value.items(), 4)
            ]
        else:
            parts = [short(each, depth - 1) for each in itertools.islice(value, 4)]
        more = f', ... ({len(value)})' if len(value) > 4 else ''
        return (left + ', '.join(parts) + more)[:200] + right
    return f'<{str.__str__(type.__dict__["__name__"].__get__(kind))[:60]}>'

BRACKETS = {list: '[]', tuple: '()', dict: '{}', set: '{}', frozenset: ('frozenset({', '})')}
'''
"""The functions of `agentforge`, what answers them, and what shows where a program is."""
