"""Wait for input there is none of."""

import sys

from attack_kit import attempt, escaped, verdict

attempt("line", input)
if sys.stdin.read() or sys.stdin.buffer.read():
    escaped("there was input")
verdict()
