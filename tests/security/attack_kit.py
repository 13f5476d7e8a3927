"""Put into the workspace of every attack: tries things, then says how it went."""

import os
import sys

BASE = sys.argv[1]
"""The host's path of the directory that holds the workspace; a real attacker would guess it."""

_escapes = []


def has_links():
    """Whether the host has links that stay inside; then the guest may do with them as it likes."""
    try:
        os.symlink("nowhere", "/tmp/a_link")
        os.remove("/tmp/a_link")
    except OSError:
        return False
    return True


INSIDE = {"dangling", "loop", "loop_a", "loop_b"} if has_links() else set()
"""The links there were before that are the guest's own on such a host."""


def attempt(label, function, *args):
    """Call something that must be refused; anything it returns is an escape."""
    try:
        value = function(*args)
    except (Exception, SystemExit) as error:
        print("refused", label, type(error).__name__)
        return None
    _escapes.append(label)
    print("NOT REFUSED", label, ascii(value)[:300])
    return value


def escaped(label):
    """Record an escape found otherwise than by something not being refused."""
    _escapes.append(label)


def attempt_above(label, function):
    """Open the directory above; nothing but the guest's own root may be there."""
    try:
        fd = function()
    except (Exception, SystemExit) as error:
        print("refused", label, type(error).__name__)
        return
    above, root = os.fstat(fd), os.stat("/")
    os.close(fd)
    if (above.st_dev, above.st_ino) != (root.st_dev, root.st_ino):
        escaped(label)
    if not set(os.listdir("/")) <= {"app", "lib", "run", "tmp", "usr"}:
        escaped(f"{label}: its names")


def read(path):
    """The content of a file."""
    with open(path, "rb") as file:
        return file.read()


def write(path):
    """Write into a file, creating it."""
    with open(path, "wb") as file:
        file.write(b"written by the guest")


def append(path):
    """Write at the end of a file, creating it."""
    with open(path, "ab") as file:
        file.write(b"appended by the guest")


def verdict():
    """Say how it went."""
    print("ESCAPED: " + ", ".join(_escapes) if _escapes else "CONTAINED")
