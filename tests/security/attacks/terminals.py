"""Get hold of a terminal."""

import os

from attack_kit import attempt, verdict


def load(name, function, *args):
    return getattr(__import__(name), function)(*args)


attempt("pty", load, "pty", "openpty")
attempt("spawn", load, "pty", "spawn", ["/bin/true"])
attempt("termios", load, "termios", "tcgetattr", 0)
attempt("tty", load, "tty", "setraw", 0)
attempt("ioctl", lambda: __import__("fcntl").ioctl(0, 0x5412, b"x"))
attempt("name", lambda: os.ttyname(0))
attempt("login", lambda: os.getlogin())  # noqa: PLW0108
attempt("curses", load, "curses", "initscr")
attempt("readline", load, "readline", "read_history_file", "/etc/passwd")
verdict()
