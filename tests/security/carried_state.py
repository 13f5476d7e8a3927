"""Ways by which an execution could leave something for the next: each a program that leaves it, and
one that looks for it and sets `found`."""

from __future__ import annotations

from typing import Final

from attrs import frozen


@frozen
class Carrier:
    """One way.

    Attributes:
        leave: Leaves something.
        look: Sets `found` to whether it is there.
        kept: Whether an interpreter that is kept on purpose carries it; what a turn begins anew
            with (its `/tmp`, its input, what it may use) it does not.
        slow: Whether it imports what takes seconds.
    """

    leave: str
    look: str
    kept: bool = True
    slow: bool = False


_ALIKE: Final = """
def spend():
    for i in range(400_000):
        i * i
"""

CARRIERS: Final[dict[str, Carrier]] = {
    # -- names and modules
    "global of the script": Carrier("left = 1", "found = 'left' in globals()"),
    "attribute of the main module": Carrier(
        "import sys; sys.modules['__main__'].__dict__['left in main'] = 1",
        "import sys; found = 'left in main' in vars(sys.modules['__main__'])",
    ),
    "attribute of builtins": Carrier(
        "import builtins; builtins.left = 1", "import builtins; found = hasattr(builtins, 'left')"
    ),
    "a builtin replaced": Carrier(
        "import builtins; builtins.sorted = lambda *_, **__: 'left'", "found = sorted([]) == 'left'"
    ),
    "a module of no file": Carrier(
        "import sys, types; sys.modules['left_behind'] = types.ModuleType('left_behind')",
        "import sys; found = 'left_behind' in sys.modules",
    ),
    "a module imported": Carrier(
        "import colorsys", "import sys; found = 'colorsys' in sys.modules"
    ),
    "attribute of a module of the library": Carrier(
        "import os; os.left = 1", "import os; found = hasattr(os, 'left')"
    ),
    "attribute of a compiled module": Carrier(
        "import unicodedata; unicodedata.left = 1",
        "import unicodedata; found = hasattr(unicodedata, 'left')",
    ),
    "attribute of a frozen module": Carrier(
        "import _frozen_importlib_external as frozen; frozen.left = 1",
        "import _frozen_importlib_external as frozen; found = hasattr(frozen, 'left')",
    ),
    "code of a function of the library": Carrier(
        "import posixpath; posixpath.join.__code__ = (lambda *a: 'left').__code__",
        "import posixpath; found = posixpath.join('a', 'b') == 'left'",
    ),
    "defaults of a function of the library": Carrier(
        "import json; json.dumps.__kwdefaults__['indent'] = 7",
        "import json; found = '\\n' in json.dumps([1])",
    ),
    "submodule bound to its package": Carrier(
        "import importlib; importlib.left = 1; import email.mime.text",
        "import sys; found = 'email.mime.text' in sys.modules",
    ),
    # -- how imports work
    "sys.path": Carrier(
        "import sys; sys.path.append('/left')", "import sys; found = '/left' in sys.path"
    ),
    "a finder of modules": Carrier(
        "import sys\nclass Left: find_spec = staticmethod(lambda *_: None)\n"
        "sys.meta_path.append(Left)",
        "import sys\n"
        "found = any(getattr(each, '__name__', '') == 'Left' for each in sys.meta_path)",
    ),
    "a hook for paths": Carrier(
        "import sys\ndef left(_): raise ImportError\nsys.path_hooks.append(left)",
        "import sys\n"
        "found = any(getattr(each, '__name__', '') == 'left' for each in sys.path_hooks)",
    ),
    "the cache of importers": Carrier(
        "import sys; sys.path_importer_cache['/left'] = None",
        "import sys; found = '/left' in sys.path_importer_cache",
    ),
    "directories of archives": Carrier(
        "import zipimport; zipimport._zip_directory_cache['/left'] = {}",
        "import zipimport; found = '/left' in zipimport._zip_directory_cache",
    ),
    "suffixes of sources": Carrier(
        "import importlib.machinery as m; m.SOURCE_SUFFIXES.append('.left')",
        "import importlib.machinery as m; found = '.left' in m.SOURCE_SUFFIXES",
    ),
    # -- the interpreter's own settings
    "recursion limit": Carrier(
        "import sys; sys.setrecursionlimit(777)",
        "import sys; found = sys.getrecursionlimit() == 777",
    ),
    "digits of large numbers": Carrier(
        "import sys; sys.set_int_max_str_digits(777)",
        "import sys; found = sys.get_int_max_str_digits() == 777",
    ),
    "depth of origins of coroutines": Carrier(
        "import sys; sys.set_coroutine_origin_tracking_depth(3)",
        "import sys; found = sys.get_coroutine_origin_tracking_depth() == 3",
    ),
    "hooks of asynchronous generators": Carrier(
        "import sys; sys.set_asyncgen_hooks(firstiter=print)",
        "import sys; found = sys.get_asyncgen_hooks().firstiter is not None",
    ),
    "bytecode switch": Carrier(
        "import sys; sys.dont_write_bytecode = 'left'",
        "import sys; found = sys.dont_write_bytecode == 'left'",
    ),
    "options of the command line": Carrier(
        "import sys; sys._xoptions['left'] = True; sys.warnoptions.append('left')",
        "import sys; found = 'left' in sys._xoptions or 'left' in sys.warnoptions",
    ),
    "arguments": Carrier(
        "import sys; sys.orig_argv.append('left')", "import sys; found = 'left' in sys.orig_argv"
    ),
    "implementation": Carrier(
        "import sys; sys.implementation.left = 1",
        "import sys; found = hasattr(sys.implementation, 'left')",
    ),
    "monitoring tool": Carrier(
        "import sys; sys.monitoring.use_tool_id(3, 'left')",
        "import sys; found = sys.monitoring.get_tool(3) == 'left'",
    ),
    "trace function": Carrier(
        "import threading; threading.settrace(print)",
        "import threading; found = threading.gettrace() is not None",
    ),
    "profile function": Carrier(
        "import threading; threading.setprofile(print)",
        "import threading; found = threading.getprofile() is not None",
    ),
    "trace of the thread": Carrier(
        "import sys; sys.settrace(lambda *_: None)",
        "import sys; found = sys.gettrace() is not None",
    ),
    "profile of the thread": Carrier(
        "import sys; sys.setprofile(lambda *_: None)",
        "import sys; found = sys.getprofile() is not None",
    ),
    "display hook": Carrier(
        "import sys\ndef left(_): pass\nsys.displayhook = left",
        "import sys; found = getattr(sys.displayhook, '__name__', '') == 'left'",
    ),
    "exception hook": Carrier(
        "import sys; sys.excepthook = print", "import sys; found = sys.excepthook is print"
    ),
    "hook for what cannot be raised": Carrier(
        "import sys; sys.unraisablehook = print", "import sys; found = sys.unraisablehook is print"
    ),
    "exception hook of threads": Carrier(
        "import threading; threading.excepthook = print",
        "import threading; found = threading.excepthook is print",
    ),
    "breakpoint hook": Carrier(
        "import sys; sys.breakpointhook = print", "import sys; found = sys.breakpointhook is print"
    ),
    "audit hook": Carrier(
        "import sys\nheard = []\n"
        "sys.addaudithook(lambda event, args: args[0].append(1) if event == 'left' else None)",
        "import sys\nheard = []\nsys.audit('left', heard)\nfound = heard != []",
    ),
    "handlers at exit": Carrier(
        "import atexit\nfor _ in range(100): atexit.register(id, 1)",
        "import atexit; found = atexit._ncallbacks() >= 100",
    ),
    "handler of a signal": Carrier(
        "import signal\ndef left(*_): pass\nsignal.signal(signal.SIGINT, left)",
        "import signal; found = getattr(signal.getsignal(signal.SIGINT), '__name__', '') == 'left'",
    ),
    "fault handler": Carrier(
        "import faulthandler, sys; faulthandler.enable(sys.__stderr__)",
        "import faulthandler; found = faulthandler.is_enabled()",
    ),
    "standard stream replaced": Carrier(
        "import io, sys\nclass Left(io.StringIO): pass\nsys.stderr = Left()",
        "import sys; found = type(sys.stderr).__name__ == 'Left'",
    ),
    "original stream replaced": Carrier(
        "import io, sys\nclass Left(io.StringIO): pass\nsys.__stderr__ = Left()",
        "import sys; found = type(sys.__stderr__).__name__ == 'Left'",
    ),
    # -- the collector, memory, identities
    "collector switched off": Carrier(
        "import gc; gc.disable()", "import gc; found = not gc.isenabled()"
    ),
    "thresholds of the collector": Carrier(
        "import gc; gc.set_threshold(77, 7, 7)", "import gc; found = gc.get_threshold()[0] == 77"
    ),
    "callbacks of the collector": Carrier(
        "import gc; gc.callbacks.append(lambda *_: None)", "import gc; found = gc.callbacks != []"
    ),
    "debug flags of the collector": Carrier(
        "import gc; gc.set_debug(gc.DEBUG_SAVEALL)", "import gc; found = gc.get_debug() != 0"
    ),
    "frozen objects": Carrier(
        "import gc, sys; sys.held = [[] for _ in range(60_000)]; gc.freeze()",
        "import gc; found = gc.get_freeze_count() > 60_000",
    ),
    "object with a finalizer": Carrier(
        "import sys\nclass Left:\n  def __del__(self): pass\nsys.left_object = Left()",
        "import sys; found = hasattr(sys, 'left_object')",
    ),
    "finalizers": Carrier(
        "import sys, weakref\nclass Left: pass\nsys.left_object = Left()\n"
        "weakref.finalize(sys.left_object, id, 1)",
        "import weakref; found = len(weakref.finalize._registry) > 0",
    ),
    "callbacks of weak references": Carrier(
        "import sys, weakref\nclass Left: pass\nsys.held = Left()\n"
        "sys.left_ref = weakref.ref(sys.held, lambda _: None)",
        "import sys; found = hasattr(sys, 'left_ref') and sys.left_ref() is not None",
    ),
    "interned text": Carrier(
        "import sys; held = sys.intern(''.join(['left', ' interned']))",
        "import sys; text = ''.join(['left', ' interned']); found = sys.intern(text) is not text",
    ),
    "dictionary of a builtin type": Carrier(
        "import gc; gc.get_referents(int.__dict__)[0]['left'] = 1", "found = 'left' in int.__dict__"
    ),
    "attribute of a class of the library": Carrier(
        "import pathlib; pathlib.PurePath.left = 1",
        "import pathlib; found = hasattr(pathlib.PurePath, 'left')",
    ),
    "registry of an abstract class": Carrier(
        "import numbers; numbers.Number.register(str)",
        "import numbers; found = issubclass(str, numbers.Number)",
    ),
    "subclasses of object": Carrier(
        "import builtins\nclass Left: pass\nbuiltins.held = Left",
        "found = any(each.__name__ == 'Left' for each in object.__subclasses__())",
    ),
    "addresses of objects": Carrier(
        "import sys; sys.held = [bytearray(1 << 20) for _ in range(120)]",
        "held = [object() for _ in range(200_000)]; found = max(map(id, held)) > 110 << 20",
    ),
    "memory traces": Carrier(
        "import tracemalloc; tracemalloc.start()",
        "import tracemalloc; found = tracemalloc.is_tracing()",
    ),
    "depth of the stack": Carrier(
        "def down(): down()\ntry: down()\nexcept RecursionError: pass",
        "def down(n): return down(n - 1) if n else 0\n"
        "try: down(900); found = False\nexcept RecursionError: found = True",
        kept=False,
    ),
    # -- what modules remember
    "warning filters": Carrier(
        "import warnings; warnings.filterwarnings('error', 'left')",
        "import warnings; found = any('left' in str(each[1]) for each in warnings.filters)",
    ),
    "warnings shown": Carrier(
        "import warnings; warnings.onceregistry['left'] = 1",
        "import warnings; found = 'left' in warnings.onceregistry",
    ),
    "codec": Carrier(
        "import codecs\n"
        "codecs.register(lambda name: codecs.lookup('utf-8') if name == 'left' else None)",
        "import codecs\n"
        "try: codecs.lookup('left'); found = True\nexcept LookupError: found = False",
    ),
    "handler of coding errors": Carrier(
        "import codecs; codecs.register_error('left', lambda error: ('', error.end))",
        "import codecs\n"
        "try: codecs.lookup_error('left'); found = True\nexcept LookupError: found = False",
    ),
    "aliases of encodings": Carrier(
        "from encodings.aliases import aliases; aliases['left'] = 'utf_8'",
        "from encodings.aliases import aliases; found = 'left' in aliases",
    ),
    "locale": Carrier(
        "import locale; locale._override_localeconv['left'] = 1",
        "import locale; found = 'left' in locale.localeconv()",
    ),
    "locale of the C library": Carrier(
        "import locale; locale.setlocale(locale.LC_NUMERIC, 'en_US.UTF-8')",
        "import locale; found = locale.setlocale(locale.LC_NUMERIC) == 'en_US.UTF-8'",
    ),
    "time zone": Carrier(
        "import os, time\nos.environ['TZ'] = 'LEFT-3'\nif hasattr(time, 'tzset'): time.tzset()",
        "import os, time; found = 'TZ' in os.environ or time.tzname[0] == 'LEFT'",
    ),
    "paths of time zones": Carrier(
        "import zoneinfo; zoneinfo.reset_tzpath(['/left'])",
        "import zoneinfo; found = '/left' in zoneinfo.TZPATH",
    ),
    "decimal context": Carrier(
        "import decimal; decimal.getcontext().prec = 7",
        "import decimal; found = decimal.getcontext().prec == 7",
    ),
    "default of decimal contexts": Carrier(
        "import decimal; decimal.DefaultContext.prec = 7",
        "import decimal; found = decimal.DefaultContext.prec == 7",
    ),
    "random state": Carrier(
        "import random; random.seed(5)",
        "import random; found = random.random() == random.Random(5).random()",
    ),
    "context variable": Carrier(
        "import contextvars, sys; sys.held = contextvars.ContextVar('left'); sys.held.set(1)",
        "import contextvars\n"
        "found = any(each.name == 'left' for each in contextvars.copy_context())",
    ),
    "policy of event loops": Carrier(
        "import asyncio.events as events; events._event_loop_policy = 'left'",
        "import asyncio.events as events; found = events._event_loop_policy == 'left'",
    ),
    "compiled expressions": Carrier(
        "import re; re.compile('left (behind)?')",
        "import re; found = any('left (behind)?' in str(key) for key in re._cache)",
    ),
    "cached results": Carrier(
        "import fnmatch\nfor i in range(200): fnmatch.fnmatch('x', f'left{i}*')",
        "import fnmatch; found = fnmatch._compile_pattern.cache_info().currsize >= 200",
    ),
    "lines of sources": Carrier(
        "import linecache; linecache.cache['left'] = (1, None, ['x'], 'left')",
        "import linecache; found = 'left' in linecache.cache",
    ),
    "how tracebacks are shown": Carrier(
        "import traceback; traceback.TracebackException.left = 1",
        "import traceback; found = hasattr(traceback.TracebackException, 'left')",
    ),
    "level of the log": Carrier(
        "import logging; logging.getLogger().setLevel(3)",
        "import logging; found = logging.getLogger().level == 3",
    ),
    "loggers": Carrier(
        "import logging; logging.getLogger('left')",
        "import logging; found = 'left' in logging.root.manager.loggerDict",
    ),
    "names of levels": Carrier(
        "import logging; logging.addLevelName(77, 'LEFT')",
        "import logging; found = logging.getLevelName(77) == 'LEFT'",
    ),
    "log switched off": Carrier(
        "import logging; logging.disable(77)",
        "import logging; found = logging.root.manager.disable == 77",
    ),
    "JSON encoder": Carrier(
        "import json; json._default_encoder = json.JSONEncoder(indent=7)",
        "import json; found = json._default_encoder.indent == 7",
    ),
    "reducers of pickles": Carrier(
        "import copyreg; copyreg.pickle(type(print), str)",
        "import copyreg; found = type(print) in copyreg.dispatch_table",
    ),
    "extensions of pickles": Carrier(
        "import copyreg; copyreg.add_extension('left', 'x', 77)",
        "import copyreg; found = ('left', 'x') in copyreg._extension_registry",
    ),
    "dispatch of the pickler": Carrier(
        "import pickle; pickle._Pickler.dispatch[type(print)] = print",
        "import pickle; found = type(print) in pickle._Pickler.dispatch",
    ),
    "adapters of a database": Carrier(
        "import sqlite3; sqlite3.register_adapter(complex, str)",
        "import sqlite3; found = any(key[0] is complex for key in sqlite3.adapters)",
    ),
    "dialect of tables": Carrier(
        "import csv; csv.register_dialect('left', delimiter=';')",
        "import csv; found = 'left' in csv.list_dialects()",
    ),
    "size of fields of tables": Carrier(
        "import csv; csv.field_size_limit(77)", "import csv; found = csv.field_size_limit() == 77"
    ),
    "types of files": Carrier(
        "import mimetypes; mimetypes.add_type('x/left', '.left')",
        "import mimetypes; found = mimetypes.guess_type('a.left')[0] == 'x/left'",
    ),
    "first day of the week": Carrier(
        "import calendar; calendar.setfirstweekday(3)",
        "import calendar; found = calendar.firstweekday() == 3",
    ),
    "short forms of objects": Carrier(
        "import reprlib; reprlib.aRepr.maxstring = 7",
        "import reprlib; found = reprlib.aRepr.maxstring == 7",
    ),
    "formats of archives": Carrier(
        "import shutil; shutil.register_archive_format('left', print)",
        "import shutil; found = 'left' in dict(shutil.get_archive_formats())",
    ),
    "name spaces of XML": Carrier(
        "import xml.etree.ElementTree as e; e.register_namespace('left', 'urn:left')",
        "import xml.etree.ElementTree as e; found = 'urn:left' in e._namespace_map",
    ),
    "domain of translations": Carrier(
        "import gettext; gettext.textdomain('left')",
        "import gettext; found = gettext.textdomain() == 'left'",
    ),
    "node of identifiers": Carrier(
        "import uuid; uuid._node = 77", "import uuid; found = uuid.getnode() == 77"
    ),
    # -- the process: environment, files, descriptors
    "environment": Carrier(
        "import os; os.environ['LEFT'] = '1'", "import os; found = 'LEFT' in os.environ"
    ),
    "environment of the C library": Carrier(
        "import posix; posix.environ[b'LEFT'] = b'1'",
        "import posix; found = b'LEFT' in posix.environ",
    ),
    "working directory": Carrier(
        "import os; os.chdir('/tmp')", "import os; found = os.getcwd() != '/app'", kept=False
    ),
    "directory of temporary files": Carrier(
        "import tempfile; tempfile.tempdir = '/app'",
        "import tempfile; found = tempfile.tempdir == '/app'",
    ),
    "names of temporary files": Carrier(
        "import sys, tempfile; sys.held = tempfile._get_candidate_names(); sys.held.left = 1",
        "import tempfile; found = hasattr(tempfile._get_candidate_names(), 'left')",
    ),
    "open file": Carrier(
        "import os; held = os.open('held', os.O_CREAT | os.O_RDWR); os.write(held, b'left open')",
        "import os\nfound = False\nfor fd in range(3, 64):\n"
        "  try: found |= os.pread(fd, 9, 0) == b'left open'\n  except OSError: pass",
    ),
    "open directory": Carrier(
        "import os; held = [os.open('/tmp', os.O_RDONLY) for _ in range(20)]",
        "import os\ncount = 0\nfor fd in range(3, 64):\n"
        "  try: os.fstat(fd); count += 1\n  except OSError: pass\nfound = count >= 20",
    ),
    "flags of a standard stream": Carrier(
        "import os; os.set_blocking(1, False)",
        "import os; found = not os.get_blocking(1)",
        kept=False,
    ),
    "position of the input": Carrier(
        "import os; os.lseek(0, 3, os.SEEK_SET)",
        "import os; found = os.lseek(0, 0, os.SEEK_CUR) != 0",
        kept=False,
    ),
    "descriptor of a mount closed": Carrier(
        "import os\nfor fd in range(3, 10):\n  try: os.close(fd)\n  except OSError: pass",
        "import os\ntry: os.listdir('/app'); os.listdir('/tmp'); found = False\n"
        "except OSError: found = True",
        kept=False,
    ),
    "file in /tmp": Carrier(
        "open('/tmp/left', 'w').write('x')",
        "import os; found = os.path.exists('/tmp/left')",
        kept=False,
    ),
    "file in the home": Carrier(
        "import pathlib; pathlib.Path.home().joinpath('.left').write_text('x')",
        "import pathlib; found = pathlib.Path.home().joinpath('.left').exists()",
        kept=False,
    ),
    "home removed": Carrier(
        "import os, shutil; shutil.rmtree(os.environ['HOME'])",
        "import os; found = not os.path.isdir(os.environ['HOME'])",
        kept=False,
    ),
    "times of /tmp": Carrier(
        "import os; os.utime('/tmp', (5, 5))",
        "import os; found = os.stat('/tmp').st_mtime == 5",
        kept=False,
    ),
    "room in /tmp": Carrier(
        "open('/tmp/left', 'wb').write(bytes(50 << 20))",
        "try: open('/tmp/mine', 'wb').write(bytes(50 << 20)); found = False\n"
        "except OSError: found = True",
        kept=False,
    ),
    # -- what a turn may use
    "calls on files": Carrier(
        "import os\nfor _ in range(6000): os.path.exists('nowhere')",
        "import os\nfor _ in range(6000): os.path.exists('nowhere')\nfound = False",
        kept=False,
    ),
    "fuel": Carrier(_ALIKE + "spend()", _ALIKE + "spend(); found = False", kept=False),
    "room for output": Carrier(
        "print('x' * 600_000)", "print('x' * 600_000); found = False", kept=False
    ),
    "input": Carrier(
        "import sys; sys.left_input = sys.stdin.read()",
        "import sys; found = hasattr(sys, 'left_input')",
    ),
    # -- the packages
    "errors of numpy": Carrier(
        "import numpy; numpy.seterr(all='raise')",
        "import numpy; found = numpy.geterr()['divide'] == 'raise'",
        slow=True,
    ),
    "printing of numpy": Carrier(
        "import numpy; numpy.set_printoptions(precision=2)",
        "import numpy; found = numpy.get_printoptions()['precision'] == 2",
        slow=True,
    ),
    "random state of numpy": Carrier(
        "import numpy; numpy.random.seed(5)",
        "import numpy; found = numpy.random.rand() == numpy.random.RandomState(5).rand()",
        slow=True,
    ),
    "options of pandas": Carrier(
        "import pandas; pandas.set_option('display.max_rows', 7)",
        "import pandas; found = pandas.get_option('display.max_rows') == 7",
        slow=True,
    ),
    "settings of matplotlib": Carrier(
        "import matplotlib; matplotlib.rcParams['lines.linewidth'] = 7.5",
        "import matplotlib; found = matplotlib.rcParams['lines.linewidth'] == 7.5",
        slow=True,
    ),
}
