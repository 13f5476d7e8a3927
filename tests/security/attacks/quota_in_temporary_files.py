# long
# host memory: 300
"""Fill what is beside the workspace: one file, many, directories, held open and renamed over."""

import os
import tempfile

from attack_kit import INSIDE, escaped, verdict

LIMIT = 64 << 20


def held(top):
    total = count = 0
    for directory, names, files in os.walk(top):
        count += len(names) + len(files)
        count -= os.path.dirname(os.environ["HOME"]) == directory  # that one the host made
        total += sum(os.lstat(os.path.join(directory, name)).st_size for name in files)
    return total, count


for place in ("/tmp", os.environ["HOME"], tempfile.mkdtemp()):
    for number in range(40):
        try:
            with open(f"{place}/big{number}", "wb") as file:
                file.write(bytes(5 << 20))
        except OSError as error:
            print("refused", error.errno)
            break
fds = []
try:
    for number in range(30):
        fds.append(os.open(f"/tmp/held{number}", os.O_RDWR | os.O_CREAT))
        os.write(fds[-1], bytes(8 << 20))
except OSError as error:
    print("refused", error.errno)
try:
    for number in range(6000):
        os.mkdir(f"/tmp/d{number}")
        os.replace(f"/tmp/d{number}", f"/tmp/e{number}")
except OSError as error:
    print("refused", error.errno)
try:
    with open("beside", "wb") as file:
        file.write(bytes(16 << 20))
except OSError as error:
    print("refused", error.errno)
for fd in fds:
    os.close(fd)
(in_tmp, made), (in_app, own) = held("/tmp"), held("/app")
apart = bool(INSIDE)  # a host with links counts the two apart
beside = (0, 0) if apart else (in_tmp, made)
if max(in_tmp, in_app + beside[0]) > LIMIT or max(made, own + beside[1]) > 4000:
    escaped(f"{in_tmp} and {in_app} bytes, {made} and {own} entries")
for path in ("/left", "/run/left", "/usr/left", "/usr/local/left"):
    try:
        os.mkdir(path)
        escaped("made " + path)
    except OSError as error:
        print("refused", error.errno)
verdict()
