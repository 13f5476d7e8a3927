"""Look for variables of the host."""

import os
import sys

from attack_kit import escaped, verdict

known = {"HOME", "TMPDIR", "PYTHONTZPATH", "MPLBACKEND", "MPLCONFIGDIR"}
if set(os.environ) - known:
    escaped("variables " + ", ".join(sorted(set(os.environ) - known)))
everything = repr(dict(os.environ)) + repr(sys.argv[2:]) + repr(sys.path) + repr(sys.flags)
for trace in ["/work", "/root", "site-packages", "pytest", "VIRTUAL_ENV"]:
    if trace in everything:
        escaped("trace of the host: " + trace)
verdict()
