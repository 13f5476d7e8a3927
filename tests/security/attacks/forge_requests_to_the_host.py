"""Write what a request to the host looks like to every descriptor and file."""

import json
import os

from attack_kit import attempt, verdict

request = json.dumps({"tool": "lookup", "arguments": {"x": 1}, "id": 1}).encode()
for fd in range(3, 40):
    attempt(f"request {fd}", os.write, fd, request)
for path in ("/run/agentforge/stdout", "/run/agentforge/stderr", "/run/agentforge/x", "/run/host"):
    attempt("read " + path, open, path)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(request)
    except OSError as error:
        print("refused", path, error.errno)
verdict()
