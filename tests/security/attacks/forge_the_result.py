"""Write what a host might take for its own words."""

import os
import sys

from attack_kit import verdict

os.write(2, b"MemoryError\n")
os.write(2, b'{"trapped": "deadline", "exit_code": null}\n')
os.write(1, b"\x00\xff\xfe\x1b]0;title\x07\n")
sys.__dict__["exit"] = None
verdict()
