"""Files and directories, half-way through what is done to them."""

from __future__ import annotations

from typing import Final

from tests.property.sandbox.live._kinds import Kind

FILES: Final = (
    Kind(
        "file open for writing",
        "writezz = open('wzz.txt', 'w'); print('before', file=writezz)",
        "print('round kk', file=writezz); print('w', writezz.tell(), writezz.closed)",
        after="writezz.close(); print('w', open('wzz.txt').read().split('\\n'))",
    ),
    Kind(
        "file never closed",
        "leftzz = open('leftzz.txt', 'w'); leftzz.write('before\\n')",
        "leftzz.write('kk\\n' * 3000)",
    ),
    Kind(
        "file open for both",
        "bothzz = open('bothzz.txt', 'w+'); bothzz.write('0123456789' * 5); bothzz.seek(7); "
        "bothzz.read(3)",
        "print('w+', bothzz.read(2)); bothzz.seek(kk); bothzz.write('<kk>'); bothzz.seek(20 + kk)",
        after="bothzz.close(); print(open('bothzz.txt').read())",
    ),
    Kind(
        "file open for appending",
        "open('azz.txt', 'w').write('there\\n'); appendzz = open('azz.txt', 'a'); appendzz.write('1\\n')",
        "appendzz.write('kk\\n'); print('a', appendzz.tell())\nif kk == 1: appendzz.flush()",
        after="appendzz.close(); print(open('azz.txt').read().split())",
    ),
    Kind(
        "file open for reading",
        "open('rzz.txt', 'w').writelines(f'line {n} \\u00e9\\n' for n in range(900))\n"
        "readzz = open('rzz.txt'); next(readzz), next(readzz)",
        "print('r', next(readzz), readzz.readline(), len(readzz.read(2000 * kk)))",
        after="readzz.seek(5); print('r', readzz.tell()); readzz.close()",
    ),
    Kind(
        "binary file",
        "rawzz = open('bzz.bin', 'wb+', 64); rawzz.write(bytes(range(200))); rawzz.seek(50); rawzz.read(3)",
        "print('b', rawzz.peek(2)[:2], rawzz.read(5), rawzz.tell()); rawzz.write(b'kk'); "
        "rawzz.seek(30 * kk)",
        after="rawzz.truncate(150); rawzz.close(); print(sum(open('bzz.bin', 'rb').read()))",
    ),
    Kind(
        "unlinked open file",
        """
import os
gonezz = open('gonezz.txt', 'w+'); gonezz.write('still here'); gonezz.flush(); os.unlink('gonezz.txt')
""",
        "gonezz.seek(0, 2); gonezz.write(' kk'); gonezz.seek(0); print('gone', gonezz.read(), "
        "os.path.exists('gonezz.txt'))",
    ),
    Kind(
        "replaced open file",
        """
import os
open('swapzz.txt', 'w').write('old' * 4); oldzz = open('swapzz.txt', 'r+')
open('newzz.txt', 'w').write('new' * 4); os.replace('newzz.txt', 'swapzz.txt')
""",
        "oldzz.seek(kk); print('replaced', oldzz.read(4), open('swapzz.txt').read(3))",
        after="oldzz.write('!'); oldzz.close(); print(open('swapzz.txt').read())",
    ),
    Kind(
        "renamed open file",
        """
import os
movezz = open('fromzz.txt', 'w'); movezz.write('one\\n'); os.rename('fromzz.txt', 'tozz.txt')
""",
        "movezz.write('kk\\n'); movezz.flush(); os.rename(f'tozz.txt', 'tempzz'); "
        "os.rename('tempzz', 'tozz.txt')\nprint('renamed', open('tozz.txt').read().split())",
        after="movezz.close()",
    ),
    Kind(
        "named temporary file",
        "import os, tempfile\nnamedzz = tempfile.NamedTemporaryFile('w+'); namedzz.write('before')",
        "namedzz.write(' kk'); namedzz.flush(); print('named', open(namedzz.name).read(), "
        "os.path.exists(namedzz.name))",
        after="namedzz.close(); print(os.path.exists(namedzz.name))",
    ),
    Kind(
        "temporary files without a name",
        """
import tempfile
namelesszz = tempfile.TemporaryFile(); namelesszz.write(b'nameless')
spooledzz = tempfile.SpooledTemporaryFile(max_size=30); spooledzz.write(b'spooled ')
""",
        "namelesszz.write(b'kk'); namelesszz.seek(0); spooledzz.write(b'kk' * 12)\n"
        "print('temporary', namelesszz.read(), spooledzz.tell(), spooledzz._rolled)",
    ),
    Kind(
        "temporary directory",
        """
import os, tempfile
placezz = tempfile.TemporaryDirectory(); open(placezz.name + '/one', 'w').write('x')
""",
        "os.makedirs(placezz.name + '/deep/kk'); print('directory', sorted(os.listdir(placezz.name)), "
        "os.listdir(placezz.name + '/deep'))",
        after="placezz.cleanup(); print(os.path.exists(placezz.name))",
    ),
    Kind(
        "scandir",
        """
import os
os.mkdir('manyzz')
for n in range(90): open(f'manyzz/{n:03}', 'w').close()
scanzz = os.scandir('manyzz'); firstzz = [next(scanzz).name for _ in range(7)]
""",
        "firstzz += [next(scanzz).name for _ in range(20)]\n"
        "print('scandir', len(set(firstzz)), len(firstzz), next(scanzz).is_file())",
        after="firstzz += [one.name for one in scanzz]; print(len(firstzz), len(set(firstzz)))",
    ),
    Kind(
        "walks",
        """
import glob, os, pathlib
os.makedirs('topzz/a/b'); os.makedirs('topzz/c')
for n in ('x', 'a/y', 'a/b/z', 'c/w'): pathlib.Path('topzz', n).write_text(n)
walkzz, globzz = os.walk('topzz'), pathlib.Path('topzz').rglob('*')
next(walkzz); seenzz = {str(next(globzz))}
""",
        "seenzz.add(str(next(globzz))); print('walk', len(seenzz))\n"
        "whatzz = next(walkzz, None); print(whatzz and (sorted(whatzz[1]), whatzz[2]))",
        after="seenzz |= set(map(str, globzz)); print(sorted(seenzz))",
    ),
    Kind(
        "descriptors of the system",
        """
import os
fdzz = os.open('fdzz.bin', os.O_RDWR | os.O_CREAT | os.O_TRUNC); os.write(fdzz, b'0123456789' * 4)
dirzz = os.open('.', os.O_RDONLY); os.lseek(fdzz, 12, os.SEEK_SET)
""",
        """
print('fd', os.read(fdzz, 2 + kk), os.lseek(fdzz, 0, os.SEEK_CUR), os.fstat(fdzz).st_size)
os.pwrite(fdzz, b'<kk>', kk * 5); os.ftruncate(fdzz, 40 - kk); print(os.pread(fdzz, 6, kk * 5))
""",
        after="os.close(fdzz); os.close(dirzz)",
    ),
    Kind(
        "appends",
        "import os\nlogzz = os.open('logzz', os.O_WRONLY | os.O_CREAT | os.O_APPEND); "
        "os.write(logzz, b'start\\n')",
        """
for n in range(5): os.write(logzz, f'kk.{n}\\n'.encode())
with open('logzz', 'ab', 0) as otherzz: otherzz.write(b'other kk\\n')
print('appends', open('logzz').read().split())
""",
        after="os.close(logzz)",
    ),
    Kind(
        "directories",
        "import os\nos.mkdir('dzz'); os.mkdir('dzz/first')",
        """
os.mkdir('dzz/kk'); open('dzz/kk/file', 'w').write('kk'); os.rename('dzz/kk', 'dzz/movedkk')
try: os.mkdir('dzz/movedkk')
except FileExistsError: print('there already')
try: os.rmdir('dzz/none')
except FileNotFoundError: print('not there')
os.rmdir('dzz/first'); os.mkdir('dzz/first'); print('directories', sorted(os.listdir('dzz')))
""",
    ),
    Kind(
        "unlinks",
        "import os\nfor n in range(6): open(f'uzz.{n}', 'w').write(str(n))",
        """
os.unlink('uzz.kk'); open('uzz.kk', 'x').close(); os.unlink('uzz.kk')
try: os.unlink('uzz.kk')
except FileNotFoundError as errorzz: print('unlinked', errorzz.filename)
os.replace('uzz.4', 'uzz.5'); os.replace('uzz.5', 'uzz.4'); print(os.path.exists('uzz.4'))
""",
    ),
    Kind(
        "links",
        """
import os
def makezz(make, *names):
    try: make(*names)
    except OSError as error: return type(error).__name__
    return 'made'
open('linkedzz', 'w').write('content')
""",
        """
print('links', makezz(os.symlink, 'linkedzz', 'softzz.kk'), makezz(os.link, 'linkedzz', 'hardzz.kk'))
print(makezz(os.symlink, 'linkedzz', 'softzz.kk'), os.path.lexists('softzz.kk'), os.path.lexists('hardzz.kk'))
print(makezz(os.symlink, 'elsewhere', '/tmp/softzz.kk'), os.path.islink('/tmp/softzz.kk'))
""",
    ),
    Kind(
        "own directory",
        "import os\nos.makedirs('cwdzz'); homezz = os.getcwd(); os.chdir('cwdzz')",
        "open('herekk', 'w').write('x'); print('cwd', os.getcwd(), os.path.exists('/app/cwdzz/herekk'))",
        after="os.chdir(homezz); print(os.path.exists('herekk'))",
        leads=True,
    ),
    Kind(
        "sqlite on disk",
        """
import sqlite3
diskzz = sqlite3.connect('diskzz.db')
diskzz.execute('create table t (n integer)'); diskzz.commit()
diskzz.execute('begin immediate'); diskzz.executemany('insert into t values (?)', [(n,) for n in range(9)])
rowszz = diskzz.execute('select n from t order by n'); next(rowszz)
""",
        "diskzz.execute('insert into t values (kk00)')\n"
        "print('disk', next(rowszz), diskzz.in_transaction, diskzz.total_changes)",
        after="""
rowszz.close(); diskzz.commit(); diskzz.close()
with sqlite3.connect('diskzz.db') as againzz:
    print(againzz.execute('select count(*), sum(n) from t').fetchone(), *againzz.execute(
        'pragma integrity_check').fetchone())
againzz.close()
""",
    ),
    Kind(
        "sqlite rolled back",
        """
import os, sqlite3
backzz = sqlite3.connect('backzz.db'); backzz.execute('create table t (n blob)')
backzz.execute('insert into t values (1)'); backzz.commit()
backzz.execute('pragma cache_size = 5'); backzz.execute('savepoint first')
backzz.executemany('insert into t values (?)', [(bytes(3000),) for _ in range(40)])
""",
        "backzz.execute('savepoint pkk'); backzz.execute('insert into t values (kk)')\n"
        "print('spilled', os.path.exists('backzz.db-journal'), backzz.execute("
        "'select count(*) from t').fetchone())",
        after="""
backzz.execute('rollback to p1'); print(backzz.execute('select count(*) from t').fetchone())
backzz.rollback(); print(backzz.execute('select count(*) from t').fetchone()); backzz.close()
""",
    ),
    Kind(
        "shelves",
        "import shelve\nshelfzz = shelve.open('/tmp/shelfzz', writeback=True); shelfzz['a'] = [1]",
        "shelfzz['a'].append(kk); shelfzz['kk'] = {'n': kk}; print('shelf', dict(shelfzz))\n"
        "if kk == 2: shelfzz.sync()",
        after="shelfzz.close()\nwith shelve.open('/tmp/shelfzz') as againzz: print(dict(againzz))",
    ),
    Kind(
        "dbm in the workspace",
        "import dbm.dumb\ndumbzz = dbm.dumb.open('dumbzz', 'c'); dumbzz['a'] = 'before'",
        "dumbzz['kk'] = b'v' * 100 * kk; print('dbm', sorted(dumbzz.keys()), len(dumbzz['kk']))",
        after="dumbzz.close()\nwith dbm.dumb.open('dumbzz', 'r') as againzz: print(sorted(againzz.keys()))",
    ),
    Kind(
        "archive being written",
        """
import zipfile
zipzz = zipfile.ZipFile('zzz.zip', 'w', zipfile.ZIP_DEFLATED)
zipzz.writestr(zipfile.ZipInfo('one.txt'), 'one' * 99)
memberzz = zipzz.open(zipfile.ZipInfo('long.txt'), 'w'); memberzz.write(b'long' * 999)
""",
        "memberzz.write(b'kk' * 999); print('zip', zipzz.namelist())",
        after="""
memberzz.close(); zipzz.close()
with zipfile.ZipFile('zzz.zip') as againzz: print(againzz.testzip(), [(i.filename, i.file_size) for i in againzz.infolist()])
""",
    ),
    Kind(
        "archive being read",
        """
import tarfile, zipfile
with zipfile.ZipFile('inzz.zip', 'w', zipfile.ZIP_DEFLATED) as zipzz:
    zipzz.writestr(zipfile.ZipInfo('a'), b'0123456789' * 4000); zipzz.writestr(zipfile.ZipInfo('b'), b'bb')
outzz = zipfile.ZipFile('inzz.zip'); partzz = outzz.open('a'); partzz.read(1003)
""",
        "print('unzip', partzz.read(7), partzz.tell(), outzz.read('b'), sum(partzz.read(9000)))",
        after="partzz.close(); outzz.close()",
    ),
    Kind(
        "tar being written",
        """
import io, tarfile
tarzz = tarfile.open('tzz.tar', 'w', format=tarfile.PAX_FORMAT)
def addzz(name, data):
    member = tarfile.TarInfo(name); member.size = len(data); tarzz.addfile(member, io.BytesIO(data))
addzz('first', b'x' * 700)
""",
        "addzz('kk', b'kk' * 99); print('tar', tarzz.getnames(), tarzz.offset)",
        after="tarzz.close()\nwith tarfile.open('tzz.tar') as againzz: print([m.size for m in againzz])",
    ),
    Kind(
        "gzip stream",
        "import gzip\ngzipzz = gzip.GzipFile('gzz.gz', 'wb', mtime=0); gzipzz.write(b'before' * 999)",
        "gzipzz.write(b'kk' * 5000); print('gzip', gzipzz.tell())\nif kk == 1: gzipzz.flush()",
        after="""
gzipzz.close()
with gzip.open('gzz.gz') as againzz: print(len(againzz.read()))
""",
    ),
    Kind(
        "bz2 and lzma streams",
        """
import bz2, lzma
bzfilezz, xzfilezz = bz2.open('szz.bz2', 'wb'), lzma.open('szz.xz', 'wb', preset=0)
bzfilezz.write(b'before' * 99); xzfilezz.write(b'before' * 99)
""",
        "bzfilezz.write(b'kk' * 9); xzfilezz.write(b'kk' * 9); print('streams', xzfilezz.tell())",
        after="""
bzfilezz.close(); xzfilezz.close()
with bz2.open('szz.bz2') as one, lzma.open('szz.xz') as two: print(len(one.read()), len(two.read()))
""",
    ),
    Kind(
        "handler of a log file",
        """
import logging, logging.handlers
filezz = logging.handlers.RotatingFileHandler('/tmp/rotzz.log', maxBytes=90, backupCount=2)
memzz = logging.handlers.MemoryHandler(2, target=filezz)
logzz = logging.getLogger('filezz'); logzz.propagate = False; logzz.addHandler(memzz); logzz.warning('first')
""",
        "logzz.error('round kk ' + 'x' * 40); logzz.error('end'); print('rotated', "
        "[n for n in ('', '.1', '.2') if __import__('os').path.exists('/tmp/rotzz.log' + n)])",
        after="logging.shutdown(); print(open('/tmp/rotzz.log').read().split())\n"
        "logzz.removeHandler(memzz)",
    ),
    Kind(
        "csv file",
        """
import csv
with open('czz.csv', 'w', newline='') as filezz: csv.writer(filezz).writerows([n, f'"{n}"'] for n in range(800))
tablezz = csv.reader(open('czz.csv', newline='')); next(tablezz)
""",
        "print('csv file', next(tablezz), tablezz.line_num)",
    ),
    Kind(
        "standard streams",
        """
import contextlib, io, sys
caughtzz = io.StringIO(); print('no newline', end=' '); sys.stdout.write('here ')
""",
        """
with contextlib.redirect_stdout(caughtzz): print('caught kk')
print('stdout', caughtzz.getvalue().split('\\n'), end=' '); print('error kk', file=sys.stderr)
sys.stdout.buffer.write(b'') ; print('part kk', end='|')
""",
    ),
    Kind(
        "files in memory",
        """
import os
os.makedirs('/tmp/mzz/deep'); openzz = open('/tmp/mzz/deep/file', 'w+'); openzz.write('before')
lostzz = open('/tmp/mzz/lost', 'w+'); lostzz.write('lost'); lostzz.flush(); os.unlink('/tmp/mzz/lost')
""",
        """
openzz.write(' kk'); openzz.flush(); lostzz.seek(0); open('/tmp/mzz/kk', 'w').write('kk')
print('in memory', open('/tmp/mzz/deep/file').read(), lostzz.read(), sorted(os.listdir('/tmp/mzz')))
""",
        after="openzz.close(); os.rename('/tmp/mzz/deep', '/tmp/mzz/moved'); print(os.listdir('/tmp/mzz/moved'))",
    ),
    Kind(
        "sizes",
        """
import os
sparsezz = open('spzz.bin', 'wb+'); sparsezz.seek(100_000); sparsezz.write(b'end')
""",
        "sparsezz.truncate(50_000 * kk); sparsezz.seek(0, 2); sparsezz.write(b'kk'); sparsezz.flush()\n"
        "print('sizes', os.path.getsize('spzz.bin'), sparsezz.tell())",
        after="sparsezz.close()",
    ),
    Kind(
        "input of files",
        """
import fileinput
for name in 'ab': open(f'fzz.{name}', 'w').writelines(f'{name}{n}\\n' for n in range(6))
inputzz = fileinput.FileInput(['fzz.a', 'fzz.b']); next(inputzz)
""",
        "print('fileinput', [next(inputzz) for _ in range(3)], inputzz.filename(), inputzz.filelineno())",
        after="inputzz.close()",
    ),
)
