# expect: exit 0, or trapped crash
"""Compile source that is nested deeper than any stack."""

import ast

print("CONTAINED", flush=True)
for source in ("(" * 10**5 + ")" * 10**5, "-" * 10**5 + "1", "a." * 10**5 + "a", "[" * 10**4):
    for read in (ast.parse, compile):
        try:
            read(source, "x", "eval") if read is compile else read(source)
        except (SyntaxError, RecursionError, MemoryError) as error:
            print("refused", type(error).__name__)
