"""Use descriptors that were not opened by this program."""

import os

from attack_kit import attempt, attempt_above, escaped, verdict

for fd in range(3, 300):
    try:
        info = os.fstat(fd)
    except OSError:
        continue
    print("descriptor", fd, oct(info.st_mode))
    for path in ["../outside/secret.txt", "../../outside/secret.txt", "/etc/passwd"]:
        attempt(f"open {path} below {fd}", lambda p=path, f=fd: os.open(p, os.O_RDONLY, dir_fd=f))
    attempt_above(f"open .. below {fd}", lambda f=fd: os.open("..", os.O_RDONLY, dir_fd=f))
    try:
        data = os.read(fd, 100)
    except OSError:
        continue
    if data:
        escaped(f"read {fd}")
for fd in (-1, -100, 2**31 - 1):
    attempt(f"fstat {fd}", os.fstat, fd)
for path in ["/proc/self/fd/3", "/dev/fd/3", "/dev/stdin", "/dev/stdout"]:
    attempt(path, lambda p=path: os.open(p, os.O_RDONLY))
verdict()
