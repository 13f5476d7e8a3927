"""Objects of the language, half-way through what they do."""

from __future__ import annotations

from typing import Final

from tests.property.sandbox.live._kinds import Kind

OBJECTS: Final = (
    Kind(
        "variables",
        "lzz = [1, {'k': (2, 3.5)}, {4}, frozenset({5}), b'x', None, ..., 2 + 3j, -(10 ** 40)]\n"
        "lzz.append(lzz[1])",
        "lzz[1]['k'] += (kk,); lzz.append(kk)\nprint('variables', lzz, lzz[1] is lzz[9])",
    ),
    Kind(
        "closure",
        """
def makezz(start):
    total = start
    def add(n, *, seen=[]):
        nonlocal total
        total += n
        seen.append(n)
        return total, seen
    return add, lambda: total
addzz, totalzz = makezz(5)
addzz(1)
""",
        "print('closure', addzz(kk), totalzz())",
    ),
    Kind(
        "destructor",
        """
import gc
endedzz = []
class Endzz:
    def __init__(self, name): self.name, self.me = name, self
    def __del__(self): endedzz.append(self.name)
endzz, cyclezz = [Endzz(n) for n in range(4)], Endzz('cycle')
for one in endzz: one.me = None
del one
gc.collect()
""",
        """
endzz.pop(0)
if kk == 1: cyclezz = None
gc.collect()
print('destructor', endedzz)
""",
    ),
    Kind(
        "weakref",
        """
import weakref
class Leafzz: pass
leafzz, calledzz = [Leafzz() for _ in range(4)], []
valueszz = weakref.WeakValueDictionary(enumerate(leafzz))
refszz = [weakref.ref(one, lambda ref: calledzz.append('ref')) for one in leafzz]
for n, one in enumerate(leafzz): weakref.finalize(one, calledzz.append, n).atexit = False
del one
""",
        """
leafzz.pop()
print('weakref', sorted(valueszz), calledzz, [ref() is not None for ref in refszz])
""",
    ),
    Kind(
        "generator",
        """
def countzz():
    try:
        n = 0
        while True:
            n += (yield n) or 1
    finally:
        print('generator closed')
genzz = countzz()
next(genzz), genzz.send(10)
""",
        "print('generator', next(genzz), genzz.send(kk), genzz.gi_frame.f_locals)",
        after="genzz.close()",
    ),
    Kind(
        "delegation",
        """
def innerzz():
    got = []
    while True:
        try:
            got.append((yield len(got)))
        except KeyError as error:
            got.append(error.args)
            if len(got) > 7: return got
def outerzz():
    return (yield from innerzz())
delegatezz = outerzz()
next(delegatezz)
""",
        """
print('delegation', delegatezz.send('kk'), delegatezz.throw(KeyError('k', kk)))
print(delegatezz.gi_yieldfrom.gi_frame.f_locals)
""",
    ),
    Kind(
        "context variables",
        """
import contextvars
varzz = contextvars.ContextVar('varzz', default='none')
contextzz = contextvars.copy_context()
contextzz.run(varzz.set, 'inside')
tokenzz = varzz.set('outside')
""",
        """
print('contextvars', varzz.get(), contextzz.run(varzz.get), contextzz[varzz])
contextzz.run(varzz.set, 'inside kk')
""",
    ),
    Kind(
        "builtin iterators",
        """
builtinzz = [
    map(str, range(9)), filter(None, range(9)), zip('abcdefg', range(9)), enumerate('abcdefg', 5),
    reversed(range(9)), iter([1, 2, 3, 4, 5]), iter({'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5}.items()),
    iter(b'abcdefg'), iter(bytearray(b'abcdefg')), iter({7: 1, 8: 1, 9: 1, 10: 1, 11: 1}),
    iter(iter([1, 2, 3, 4, 5, 6]).__next__, 6), (n for n in range(9)), iter(range(2, 99, 7)),
]
[next(one) for one in builtinzz]
""",
        "print('iterators', [next(one) for one in builtinzz])",
    ),
    Kind(
        "exception with its traceback",
        """
import traceback, sys
def raisezz(n):
    local = f'depth {n}'
    if n == 0: raise ValueError('deep', {'n': n})
    raisezz(n - 1)
try:
    try:
        raisezz(5)
    except ValueError as inner:
        inner.add_note('a note')
        raise RuntimeError('outer') from inner
except RuntimeError as error:
    heldzz = error
""",
        """
framezz = heldzz.__cause__.__traceback__
while framezz.tb_next: framezz = framezz.tb_next
print('exception', repr(heldzz), heldzz.__cause__.__notes__, framezz.tb_frame.f_locals['local'])
print([one.name for one in traceback.extract_tb(heldzz.__cause__.__traceback__)][-6:])
""",
    ),
    Kind(
        "exception group",
        """
try:
    raise ExceptionGroup('many', [ValueError(1), ExceptionGroup('in', [KeyError('k'), TypeError(2)])])
except* KeyError as found:
    groupedzz = found
except* (ValueError, TypeError) as others:
    otherszz = others
""",
        "print('group', repr(groupedzz), repr(otherszz.split(ValueError)))",
    ),
    Kind(
        "exception being handled",
        "",
        """
try: raise
except RuntimeError as againzz: print('handled', againzz.args, type(againzz.__context__).__name__)
""",
        around="""
try:
    try: {}['no']
    except KeyError: raise RuntimeError('handled', zz)
except RuntimeError:
""",
    ),
    Kind(
        "finally",
        "orderzz = []",
        "orderzz.append(kk)",
        around="try:",
        after="finally:\n    print('finally', orderzz)",
    ),
    Kind(
        "with blocks",
        """
import contextlib
@contextlib.contextmanager
def managedzz(name):
    print('enter', name)
    try: yield [name]
    finally: print('exit', name)
class Quietzz:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): print('quiet', kind); return True
""",
        "listzz.append(kk); print('with', listzz, twozz)",
        around="with Quietzz(), managedzz('one') as listzz, managedzz('two') as twozz:",
        after="print('with after', listzz)",
    ),
    Kind(
        "exit stack",
        """
import contextlib
stackzz = contextlib.ExitStack()
stackzz.callback(print, 'stack: last')
stackzz.push(lambda *error: print('stack: pushed'))
stackzz.enter_context(contextlib.suppress(KeyError))
""",
        "stackzz.callback(print, 'stack:', kk)",
        after="stackzz.close()",
    ),
    Kind(
        "modules made by hand",
        """
import sys, types
madezz = types.ModuleType('madezz', 'a module'); madezz.value = [1]
exec('def add(n):\\n    value.append(n)\\n    return list(value)', vars(madezz))
sys.modules['madezz'] = madezz
""",
        "import madezz as otherzz\nprint('module', otherzz.add(kk), otherzz is sys.modules['madezz'])",
    ),
    Kind(
        "module with __getattr__",
        """
import sys, types
lazyzz = types.ModuleType('lazyzz')
lazyzz.__getattr__ = lambda name: f'made {name}'
sys.modules['lazyzz'] = lazyzz
""",
        "from lazyzz import anykk as gotzz\nprint('lazy', gotzz, lazyzz.other)",
    ),
    Kind(
        "import hooks",
        """
import sys, importlib.abc, importlib.util
class Finderzz(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    made = 0
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name.startswith('virtzz_') else None
    def create_module(self, spec): return None
    def exec_module(self, module): self.made += 1; module.number = self.made
finderzz = Finderzz()
sys.meta_path.append(finderzz)
import virtzz_0
""",
        "import virtzz_kk, virtzz_0\nprint('hook', virtzz_kk.number, virtzz_0.number, finderzz.made)",
    ),
    Kind(
        "memory views",
        """
import array
bytezz = bytearray(b'0123456789abcdef')
viewzz = memoryview(bytezz)[4:12]
castzz = memoryview(array.array('I', range(6))).cast('B').cast('I', (2, 3))
""",
        """
viewzz[kk] = 90
print('view', bytes(viewzz), bytezz, viewzz.obj is bytezz, castzz[1, 2], castzz.tolist())
try: bytezz.append(1)
except BufferError as errorzz: print(errorzz)
""",
    ),
    Kind(
        "proxies",
        """
import types
underzz = {'a': 1}; proxyzz = types.MappingProxyType(underzz); keyszz = underzz.keys()
spacezz, aliaszz = types.SimpleNamespace(x=1), list[int] | None
cellzz, methodzz = types.CellType(4), types.MethodType(lambda self, n: (self, n), 'self')
""",
        """
underzz['kk'] = kk; spacezz.x += kk; cellzz.cell_contents += 1
print('proxy', dict(proxyzz), list(keyszz), spacezz, aliaszz, cellzz.cell_contents, methodzz(kk))
""",
    ),
    Kind(
        "descriptors",
        """
class Fieldzz:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, one, owner): return self if one is None else getattr(one, self.name, 'unset')
    def __set__(self, one, value): setattr(one, self.name, value * 2)
    def __delete__(self, one): delattr(one, self.name)
class Ownerzz:
    field = Fieldzz()
    @property
    def both(self): return self.field, self.field
    @both.setter
    def both(self, value): self.field = value
describedzz = Ownerzz(); describedzz.field = 4
""",
        "print('descriptor', describedzz.both, vars(describedzz)); describedzz.both = kk\n"
        "print(describedzz.field, Ownerzz.field.name)",
    ),
    Kind(
        "metaclass",
        """
class Metazz(type):
    made = []
    @classmethod
    def __prepare__(meta, name, bases, **options): return {'prepared': options}
    def __new__(meta, name, bases, space, **options): return super().__new__(meta, name, bases, space)
    def __init__(cls, name, bases, space, **options): Metazz.made.append(name)
    def __call__(cls, *values): return (cls.__name__, super().__call__(*values))
    def __instancecheck__(cls, one): return one == 'instance'
class Madezz(metaclass=Metazz, option=1): pass
""",
        """
class Laterzzkk(Madezz, option=kk): pass
print('metaclass', Metazz.made, Laterzzkk.prepared, isinstance('instance', Madezz), Madezz()[0])
""",
    ),
    Kind(
        "slots and inheritance",
        """
import abc
class Basezz(abc.ABC):
    __slots__ = ('a', '__weakref__')
    def __init_subclass__(cls, **options): cls.options = options
    @abc.abstractmethod
    def act(self): ...
class Leftzz(Basezz):
    __slots__ = ()
    def act(self): return ['left']
class Bothzz(Leftzz, which='both'):
    __slots__ = ('b',)
    def act(self): return ['both', *super().act()]
slotszz = Bothzz(); slotszz.a = 1
""",
        """
slotszz.b = kk; print('slots', slotszz.a, slotszz.b, slotszz.act(), Bothzz.options, Bothzz.__mro__[1])
try: slotszz.c = 1
except AttributeError as errorzz: print(errorzz)
try: Basezz()
except TypeError as errorzz: print(errorzz)
""",
    ),
    Kind(
        "coroutine driven by hand",
        """
import types
@types.coroutine
def pausezz(value): return (yield value)
async def stepszz():
    got = []
    async with Enterzz(got):
        for n in range(9): got.append(await pausezz((n, list(got))))
class Enterzz:
    def __init__(self, got): self.got = got
    async def __aenter__(self): self.got.append(await pausezz('entering'))
    async def __aexit__(self, *error): self.got.append('left')
handzz = stepszz(); handzz.send(None)
""",
        "print('by hand', handzz.send(kk), handzz.cr_frame.f_locals['got'], handzz.cr_await is not None)",
        after="handzz.close()",
    ),
    Kind(
        "code objects",
        """
import ast, linecache
codezz = compile('result = [n * factor for n in range(4)]', '<made>', 'exec')
treezz = ast.parse('a + b * 2', mode='eval')
walkzz = ast.walk(treezz); next(walkzz)
""",
        """
spacezz = {'factor': kk}; exec(codezz, spacezz); print('code', spacezz['result'])
print(eval(compile(treezz, '<tree>', 'eval'), {'a': 1, 'b': kk}), type(next(walkzz)).__name__)
""",
    ),
    Kind(
        "interpreter settings",
        """
import os, sys, warnings
sys.setrecursionlimit(777); os.environ['SETzz'] = 'x'; sys.set_int_max_str_digits(5000)
sys.path.append('/nowhere/zz')
""",
        """
os.environ['SETzz'] += 'kk'; import warnings
print('settings', sys.getrecursionlimit(), os.environ['SETzz'], '/nowhere/zz' in sys.path)
print(sys.get_int_max_str_digits()); warnings.warn('round kk')
""",
        around="with warnings.catch_warnings(record=True) as caughtzz:\n    warnings.simplefilter('always')",
        after="print('settings', [text for one in caughtzz if (text := str(one.message))[:5] == 'round'])",
    ),
    Kind(
        "locals of threads",
        """
import queue, threading
localzz = threading.local(); localzz.value = 1
lockzz = threading.RLock(); lockzz.acquire(); queuezz = queue.PriorityQueue()
queuezz.put((2, 'b')); queuezz.put((1, 'a')); eventzz = threading.Event()
simplezz = queue.SimpleQueue(); simplezz.put('first')
""",
        """
localzz.value += kk; lockzz.acquire(); eventzz.set(); queuezz.put((0, 'kk')); simplezz.put(kk)
print('threads', localzz.value, queuezz.get(), queuezz.qsize(), simplezz.get(), eventzz.is_set())
""",
    ),
    Kind(
        "much memory",
        "bigzz = bytearray(b'\\x5a') * 3_000_000; spreadzz = [str(n) for n in range(20_000)]",
        "bigzz[kk * 999_983 % len(bigzz)] = kk; spreadzz[kk * 7919 % 20_000] = 'kk'\n"
        "print('memory', sum(bigzz), len(''.join(spreadzz)), __import__('zlib').crc32(bigzz))",
    ),
    Kind(
        "freed memory",
        "freedzz = [bytes(4000) for _ in range(600)]; del freedzz[::2]",
        "freedzz.extend(bytes([kk]) * 3000 for _ in range(100)); del freedzz[::3]\n"
        "print('freed', len(freedzz), sum(map(sum, freedzz)))",
    ),
    Kind(
        "deep recursion",
        "nestedzz = []\nfor _ in range(300): nestedzz = [nestedzz]\n"
        "def deepzz(n): return 0 if n == 0 else 1 + deepzz(n - 1)",
        "depthzz, innerzz = 0, nestedzz\nwhile innerzz: innerzz, depthzz = innerzz[0], depthzz + 1\n"
        "print('deep', depthzz, deepzz(200 + kk))",
    ),
    Kind(
        "tracing",
        """
import sys
seenzz = []
def tracezz(code, place): seenzz.append(code.co_name)
def tracedzz(): return 5
sys.monitoring.use_tool_id(zz, 'toolzz')
sys.monitoring.register_callback(zz, 1, tracezz)
sys.monitoring.set_local_events(zz, tracedzz.__code__, 1)
""",
        "tracedzz(); print('tracing', seenzz)",
    ),
)
