"""Leave something in every place that could outlive a run."""

import atexit
import builtins
import os
import sys
import tempfile

from attack_kit import verdict

builtins.left = "a mark"
sys.left = "a mark"
os.environ["LEFT"] = "a mark"
home = os.path.expanduser("~")
for place in ("/tmp", home, "/", "/var", "/etc", "/run", tempfile.gettempdir(), "/run/agentforge"):
    try:
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "left.txt"), "w") as file:
            file.write("a mark")
    except OSError as error:
        print("refused", place, error.errno)
kept = open("/tmp/kept_open", "w")  # noqa: SIM115
held = os.open("/app", os.O_RDONLY)
atexit.register(atexit.register, print, "late")
os.chdir("/tmp")
sys.setswitchinterval(100)
sys.setrecursionlimit(100)
verdict()
