"""Write to the name the script seems to have."""

import os
import sys

from attack_kit import verdict

for path in (__file__, sys.argv[0], "/app/<script>", "<script>", "/app/<stdin>", "-c"):
    try:
        with open(path, "w") as file:
            file.write("print('ESCAPED: ran instead')\n")
    except OSError as error:
        print("refused", path, error.errno)
os.environ["PYTHONSTARTUP"] = "/app/<script>"
os.environ["PYTHONPATH"] = "/app/evil"
verdict()
