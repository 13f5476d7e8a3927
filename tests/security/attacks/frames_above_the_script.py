"""Look at, and change, what called the script."""

import sys

from attack_kit import BASE, escaped, verdict

WORKSPACE = "/" + "workspace"
frame = sys._getframe()
while frame is not None:
    for name, value in {**frame.f_globals, **frame.f_locals}.items():
        if isinstance(value, str) and BASE + WORKSPACE in value:
            escaped("a host path in " + name)
    for name in ("keep", "streams", "WORKSPACE", "NAME"):
        if name in frame.f_globals:
            frame.f_globals[name] = "/tmp"
    frame.f_trace = lambda *_: None
    frame = frame.f_back
sys.settrace(lambda *_: None)
sys.setprofile(lambda *_: None)
verdict()
