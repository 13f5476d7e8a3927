"""Objects of the standard library, half-way through what they do."""

from __future__ import annotations

from typing import Final

from tests.property.sandbox.live._kinds import Kind

LIBRARY: Final = (
    Kind(
        "cache",
        """
import functools
@functools.lru_cache(maxsize=3)
def squarezz(n): return n * n
for n in (1, 2, 3, 1): squarezz(n)
@functools.cache
def fibzz(n): return n if n < 2 else fibzz(n - 1) + fibzz(n - 2)
fibzz(50)
""",
        "print('cache', squarezz(kk + 1), squarezz(9), squarezz.cache_info(), fibzz(51 + kk), "
        "fibzz.cache_info().hits)",
    ),
    Kind(
        "decimal",
        """
import decimal
decimalzz = decimal.Context(prec=7, rounding=decimal.ROUND_UP)
decimal.getcontext().prec = 11
""",
        """
print('decimal', decimal.Decimal(1) / 7, decimalzz.divide(decimal.Decimal(kk), 3), decimalzz.flags[
    decimal.Inexact])
""",
    ),
    Kind(
        "itertools",
        """
import itertools
iterzz = {
    'count': itertools.count(3, 2), 'cycle': itertools.cycle('abc'),
    'chain': itertools.chain.from_iterable([c] * 2 for c in 'xyz'),
    'slice': itertools.islice(itertools.accumulate(range(1, 99)), 2, None, 3),
    'product': itertools.product('ab', repeat=3), 'pairs': itertools.pairwise(range(9)),
    'permute': itertools.permutations('abcd', 3), 'batch': itertools.batched(range(20), 3),
}
teezz = itertools.tee(iter(range(20)), 2)
groupzz = itertools.groupby('aabbbccdde')
for one in iterzz.values(): next(one)
next(teezz[0]); next(groupzz)
""",
        """
print('itertools', [next(one) for one in iterzz.values()], next(teezz[0]), next(teezz[1]))
keyzz, manyzz = next(groupzz); print(keyzz, next(manyzz))
""",
    ),
    Kind(
        "zlib",
        """
import zlib
packzz, unpackzz = zlib.compressobj(6), zlib.decompressobj()
packedzz = packzz.compress(b'before ' * 300)
""",
        """
packedzz += packzz.compress(b'kk' * 5000) + packzz.flush(zlib.Z_SYNC_FLUSH)
outzz = unpackzz.decompress(packedzz); packedzz = b''
print('zlib', len(outzz), zlib.crc32(outzz), unpackzz.unconsumed_tail)
""",
    ),
    Kind(
        "hashes",
        """
import hashlib, hmac
hasheszz = [hashlib.new(name, b'before') for name in ('md5', 'sha1', 'sha256', 'sha512', 'sha3_256')]
hasheszz += [hashlib.blake2b(b'x' * 200, key=b'k'), hashlib.blake2s(b'y' * 70, digest_size=8)]
hmaczz, shakezz = hmac.new(b'key', b'text', 'sha256'), hashlib.shake_128(b's')
""",
        """
for one in (*hasheszz, hmaczz, shakezz): one.update(b'kk' * 33)
print('hashes', [one.hexdigest()[:8] for one in (*hasheszz, hmaczz)], shakezz.hexdigest(4))
""",
    ),
    Kind(
        "random",
        "import random\nrandom.seed(12); diezz = random.Random(7); diezz.gauss(0, 1)",
        "print('random', random.random(), diezz.gauss(0, 1), diezz.sample(range(99), 4), "
        "random.getrandbits(70))",
    ),
    Kind(
        "logging",
        """
import io, logging
streamzz = io.StringIO()
loggerzz = logging.getLogger('logzz'); loggerzz.propagate = False; loggerzz.setLevel('INFO')
handlerzz = logging.StreamHandler(streamzz)
handlerzz.setFormatter(logging.Formatter('%(levelname)s:%(name)s:%(message)s'))
loggerzz.addHandler(handlerzz)
loggerzz.addFilter(lambda record: 'secret' not in record.getMessage())
loggerzz.info('before')
""",
        """
logging.getLogger('logzz').warning('round %d', kk); loggerzz.debug('no'); loggerzz.info('secret')
print('logging', streamzz.getvalue().split('\\n'))
""",
    ),
    Kind(
        "dataclasses",
        """
import dataclasses
@dataclasses.dataclass(order=True, slots=True)
class Pointzz:
    x: int
    y: int = 2
    tags: list = dataclasses.field(default_factory=list, compare=False)
@dataclasses.dataclass(frozen=True)
class Coldzz:
    x: int
pointzz, coldzz = Pointzz(1), Coldzz(3)
""",
        """
pointzz.tags.append(kk); movedzz = dataclasses.replace(pointzz, x=kk + 5)
print('dataclass', pointzz < movedzz, dataclasses.asdict(movedzz), hash(coldzz) == hash(Coldzz(3)))
try: coldzz.x = 1
except dataclasses.FrozenInstanceError as errorzz: print(errorzz)
""",
    ),
    Kind(
        "enums",
        """
import enum
class Colourzz(enum.Enum):
    RED = 1
    BLUE = enum.auto()
    @property
    def next(self): return Colourzz(3 - self.value)
class Bitszz(enum.Flag): A = 1; B = 2; C = 4
colourzz, bitszz = Colourzz.RED, Bitszz.A
""",
        "bitszz |= Bitszz(kk); colourzz = colourzz.next\n"
        "print('enum', colourzz, colourzz is Colourzz.BLUE, bitszz, ~bitszz, list(Colourzz))",
    ),
    Kind(
        "named tuples",
        """
import collections, typing
Pairzz = collections.namedtuple('Pairzz', 'a b', defaults=[5])
class Triplezz(typing.NamedTuple):
    a: int
    b: str = 'b'
pairzz, triplezz = Pairzz(1), Triplezz(2)
""",
        "pairzz = pairzz._replace(a=pairzz.a + kk)\n"
        "print('namedtuple', pairzz, triplezz, isinstance(pairzz, Pairzz), triplezz == (2, 'b'))",
    ),
    Kind(
        "regular expressions",
        """
import re
patternzz = re.compile(r'(?P<word>[a-z]+)(\\d+)')
matcheszz = patternzz.finditer('ab1 cd22 ef333 gh4444 ij55555')
matchzz = next(matcheszz)
scannerzz = patternzz.scanner('k1 l2 m3 n4 o5')
scannerzz.search()
""",
        """
nextzz = next(matcheszz)
print('re', matchzz['word'], matchzz.span(2), nextzz.groups(), scannerzz.search().group())
print(patternzz.sub(lambda m: m[2] + m[1], 'xkk0'), nextzz.expand(r'\\2-\\1'))
""",
    ),
    Kind(
        "re.Scanner",
        """
import re
scanzz = re.Scanner([(r'\\d+', lambda s, t: int(t)), (r'\\w+', lambda s, t: t), (r'\\s+', None)])
""",
        "print('scanner', scanzz.scan('abc 12 dekk 3 !'))",
    ),
    Kind(
        "arrays and structs",
        """
import array, struct
arrayzz, structzz = array.array('d', [1.5, 2.5]), struct.Struct('<IhQ4s')
unpackedzz = struct.iter_unpack('<H', bytes(range(20)))
next(unpackedzz)
""",
        "arrayzz.append(kk / 3); print('array', arrayzz, structzz.pack(kk, -2, 3, b'four'), "
        "next(unpackedzz))",
    ),
    Kind(
        "collections",
        """
import collections
dequezz = collections.deque(range(200), maxlen=70)
throughzz = iter(collections.deque('abcdefgh')); next(throughzz)
defaultzz, counterzz = collections.defaultdict(list), collections.Counter('abracadabra')
orderedzz = collections.OrderedDict.fromkeys('cab')
chainzz = collections.ChainMap({'a': 1}, {'a': 2, 'b': 3})
""",
        """
dequezz.rotate(kk); dequezz.appendleft('kk'); defaultzz[kk % 2].append(kk); counterzz.update('kk')
orderedzz.move_to_end('c', last=kk % 2 == 0); chainzz = chainzz.new_child({'c': kk})
print('collections', dequezz[0], dequezz[-1], len(dequezz), next(throughzz), dict(defaultzz))
print(counterzz.most_common(2), list(orderedzz), sorted(chainzz.items()), chainzz.maps[1:])
""",
    ),
    Kind(
        "heaps",
        """
import bisect, heapq
heapzz = [9, 4, 7, 1, 8, 3]; heapq.heapify(heapzz)
mergedzz = heapq.merge([1, 4, 7, 10], [2, 5, 8, 11], [3, 6, 9, 12]); next(mergedzz)
""",
        "heapq.heappush(heapzz, kk); bisect.insort(sortedzz := sorted(heapzz), 5)\n"
        "print('heap', heapq.heappop(heapzz), heapzz, next(mergedzz), sortedzz)",
    ),
    Kind(
        "dates",
        """
import datetime
zonezz = datetime.timezone(datetime.timedelta(hours=2), 'here')
momentzz = datetime.datetime(2024, 2, 29, 12, tzinfo=zonezz)
""",
        "momentzz += datetime.timedelta(days=kk, microseconds=1)\n"
        "print('date', momentzz.isoformat(), momentzz.tzinfo is zonezz, momentzz.strftime('%a %d %b'))",
    ),
    Kind(
        "fractions and statistics",
        """
import fractions, statistics
fractionzz, normalzz = fractions.Fraction(1, 3), statistics.NormalDist(5, 2)
""",
        "fractionzz += fractions.Fraction(1, kk + 6)\n"
        "print('fraction', fractionzz, normalzz.cdf(kk), statistics.linear_regression([1, 2], [3, kk]))",
    ),
    Kind(
        "formatters",
        """
import string, textwrap
class Loudzz(string.Formatter):
    def format_field(self, value, spec):
        return str(value).upper() if spec == 'loud' else super().format_field(value, spec)
loudzz, templatezz = Loudzz(), string.Template('$who has $$${n}')
wrapzz = textwrap.TextWrapper(width=20, initial_indent='* ')
parsedzz = string.Formatter().parse('{a!r:>5} and {b} and {c}'); next(parsedzz)
""",
        """
print('format', loudzz.format('{0:loud} {1:>4}', 'word', kk), templatezz.substitute(who='x', n=kk))
print(wrapzz.wrap('many words that are wrapped ' * 2), next(parsedzz, None))
""",
    ),
    Kind(
        "json",
        """
import json
chunkszz = json.JSONEncoder(indent=1).iterencode({'a': [1, {'b': None}], 'c': [True, 2.5, 'x' * 9]})
for _ in range(4): next(chunkszz)
decoderzz, textzz, placezz = json.JSONDecoder(), '{"a": 1} [2, 3] "x" 4.5 null 7', 0
""",
        """
print('json', [next(chunkszz, '') for _ in range(4)])
valuezz, placezz = decoderzz.raw_decode(textzz, placezz); placezz += 1; print(valuezz, placezz)
""",
    ),
    Kind(
        "pickle",
        """
import copy, io, pickle
picklezz, outerzz = io.BytesIO(), Ownzz()
picklerzz = pickle.Pickler(picklezz); picklerzz.dump(outerzz)
""",
        """
outerzz.state['kk'] = [outerzz]; picklerzz.dump(outerzz)
loadedzz = pickle.loads(pickle.dumps(outerzz))
print('pickle', loadedzz.state.keys(), loadedzz.state['kk'][0] is loadedzz, len(picklezz.getvalue()))
print(copy.deepcopy(outerzz).restored, outerzz.restored)
""",
        prelude="""
class Ownzz:
    restored = 0
    def __init__(self): self.state = {'a': self}
    def __getstate__(self): return self.state
    def __setstate__(self, state): self.state = state; self.restored += 1
""",
    ),
    Kind(
        "streams in memory",
        """
import io
textiozz, binaryzz = io.StringIO('one\\ntwo\\nthree\\nfour\\n'), io.BytesIO(b'0123456789')
textiozz.readline(); binaryzz.seek(4)
linedzz = io.TextIOWrapper(io.BytesIO(), 'utf-16', write_through=False); linedzz.write('a\\u20ac')
""",
        """
print('streams', textiozz.readline(), textiozz.tell(), binaryzz.read(2), binaryzz.write(b'kk'))
linedzz.write('kk\\n'); print(binaryzz.getvalue(), linedzz.tell(), linedzz.buffer.getvalue()[-4:])
""",
    ),
    Kind(
        "buffered streams",
        """
import io
rawzz = io.BytesIO(b'line one\\nline two\\nline three\\nline four\\n' * 40)
readerzz = io.BufferedReader(rawzz, 32); readerzz.readline()
sinkzz = io.BytesIO(); writerzz = io.BufferedWriter(sinkzz, 64); writerzz.write(b'x' * 30)
""",
        """
print('buffered', readerzz.peek(3)[:3], readerzz.readline(), readerzz.tell())
writerzz.write(b'y' * 15); print(len(sinkzz.getvalue()), writerzz.tell())
""",
        after="writerzz.flush(); print('buffered', len(sinkzz.getvalue()))",
    ),
    Kind(
        "codecs",
        """
import codecs
decodezz = codecs.getincrementaldecoder('utf-8')('replace'); decodezz.decode('\\u20ac'.encode()[:2])
encodezz = codecs.getincrementalencoder('utf-16')(); encodezz.encode('a')
""",
        "print('codecs', ascii(decodezz.decode('\\u20ac'.encode()[2:] + '\\u00e9'.encode()[:1])), "
        "decodezz.getstate(), encodezz.encode('kk'))\n"
        "decodezz.setstate((b'\\xe2\\x82', 0))",
    ),
    Kind(
        "csv",
        """
import csv, io
rowszz = csv.DictReader(io.StringIO('a,b\\n1,"x\\ny"\\n2,z\\n3,w\\n4,v\\n5,u\\n')); next(rowszz)
csvoutzz = io.StringIO(); csvzz = csv.writer(csvoutzz, delimiter=';'); csvzz.writerow(['a', 'b;'])
""",
        "csvzz.writerow([kk, 'x\"']); print('csv', next(rowszz), rowszz.line_num, "
        "csvoutzz.getvalue().split('\\r\\n'))",
    ),
    Kind(
        "partials",
        """
import functools, operator
partialzz = functools.partial(pow, 2, mod=1000)
class Methodszz:
    def base(self, a, b): return type(self).__name__, a, b
    half = functools.partialmethod(base, 'half')
    @functools.cached_property
    def once(self): print('computed once'); return 5
ownerzz = Methodszz(); boundzz = ownerzz.half; ownerzz.once
getzz, keyzz = operator.itemgetter(1, 0), functools.cmp_to_key(lambda a, b: b - a)
""",
        "print('partial', partialzz(kk), boundzz(kk), getzz('ab'), sorted([kk, 9, 4], key=keyzz), "
        "ownerzz.once)",
    ),
    Kind(
        "single dispatch",
        """
import functools
@functools.singledispatch
def showzz(value): return 'object'
@showzz.register
def _(value: int): return 'int'
@showzz.register(list)
def _(value): return ['list', *map(showzz, value)]
showzz([1])
""",
        """
@showzz.register(str if kk == 1 else bytes)
def _(value): return 'added'
print('dispatch', showzz([1, 's', b'b', 2.5]), len(showzz.registry))
""",
    ),
    Kind(
        "parsers of markup",
        """
import html.parser, xml.etree.ElementTree as etreezz
class Tagszz(html.parser.HTMLParser):
    def __init__(self): super().__init__(); self.seen = []
    def handle_starttag(self, tag, attrs): self.seen.append((tag, attrs))
    def handle_data(self, data): self.seen.append(data)
tagszz = Tagszz(); tagszz.feed('<p class="x">te')
pullzz = etreezz.XMLPullParser(['start', 'end']); pullzz.feed('<root><a n="1">x</a><b')
list(pullzz.read_events())
""",
        """
tagszz.feed('xt kk</p><a hr'); tagszz.feed('ef=y>')
pullzz.feed(' n="kk">y</b><c/><b')
print('markup', tagszz.seen[-4:], [(what, e.tag, e.attrib) for what, e in pullzz.read_events()])
""",
    ),
    Kind(
        "expat",
        """
import xml.parsers.expat
expatzz, eventszz = xml.parsers.expat.ParserCreate(), []
expatzz.StartElementHandler = lambda name, attrs: eventszz.append((name, attrs))
expatzz.CharacterDataHandler = eventszz.append
expatzz.Parse('<?xml version="1.0"?><top><one a="', False)
""",
        "expatzz.Parse('kk\"/>text<one a=\"', False); print('expat', eventszz, "
        "expatzz.CurrentByteIndex)",
    ),
    Kind(
        "bz2 and lzma",
        """
import bz2, lzma
bzzz, xzzz = bz2.BZ2Compressor(), lzma.LZMACompressor(preset=0)
firstzz = bzzz.compress(b'before ' * 900), xzzz.compress(b'before ' * 900)
halfzz = bz2.BZ2Decompressor(), lzma.LZMADecompressor()
packed_zz = bz2.compress(b'whole' * 500), lzma.compress(b'whole' * 500, preset=0)
readzz = [one.decompress(data[:30], 40) for one, data in zip(halfzz, packed_zz)]
""",
        "bzzz.compress(b'kk' * 99), xzzz.compress(b'kk' * 99)\n"
        "print('bz2 lzma', [one.needs_input for one in halfzz], [one.eof for one in halfzz])",
        after="""
print(bz2.decompress(firstzz[0] + bzzz.flush())[-4:], lzma.decompress(firstzz[1] + xzzz.flush())[-4:])
print([len(a + one.decompress(d[30:])) for a, one, d in zip(readzz, halfzz, packed_zz)])
""",
    ),
    Kind(
        "sqlite in memory",
        """
import sqlite3
memoryzz = sqlite3.connect(':memory:')
memoryzz.create_function('twice', 1, lambda n: n * 2)
memoryzz.row_factory = sqlite3.Row
memoryzz.execute('create table t (n integer primary key, s text)')
memoryzz.executemany('insert into t values (?, ?)', [(n, 'row' * n) for n in range(60)])
cursorzz = memoryzz.execute('select n, twice(n) as d, s from t order by n'); next(cursorzz)
""",
        """
rowzz = next(cursorzz); memoryzz.execute('insert into t values (?, ?)', (1000 + kk, 'kk'))
print('sqlite', tuple(rowzz), rowzz['d'], memoryzz.total_changes, memoryzz.in_transaction)
""",
        after="memoryzz.rollback(); print(memoryzz.execute('select count(*) from t').fetchone()[0])",
    ),
    Kind(
        "configuration parsers",
        """
import argparse, configparser, difflib
configzz = configparser.ConfigParser(); configzz.read_string('[a]\\nx = 1\\ny = %(x)s2\\n')
argszz = argparse.ArgumentParser(prog='p'); argszz.add_argument('--n', type=int, default=3)
differzz = difflib.SequenceMatcher(a='abcdef', b='abxdef'); linesdzz = difflib.unified_diff(['a', 'b'], ['a', 'c'])
next(linesdzz)
""",
        "configzz['a']['x'] = 'kk'; print('config', configzz['a']['y'], argszz.parse_args(['--n', 'kk']), "
        "differzz.get_opcodes()[1], repr(next(linesdzz, None)))",
    ),
    Kind(
        "mocks",
        """
import unittest.mock
mockzz = unittest.mock.MagicMock(side_effect=iter('abcdefg')); mockzz(0)
""",
        "print('mock', mockzz(kk), mockzz.call_count, mockzz.mock_calls[-1], textmadezz())",
        around="with unittest.mock.patch('builtins.ascii', lambda value: 'patched') as _,\\\n"
        "        unittest.mock.patch('os.sep', '!'):\n    textmadezz = lambda: (ascii(1), __import__('os').sep)",
        after="print('mock', ascii('x'), __import__('os').sep)",
    ),
)
