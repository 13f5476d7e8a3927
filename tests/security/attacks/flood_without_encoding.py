# expect: exit 0
"""Print what is no text: lone surrogates, controls, every plane."""

import os
import sys

from attack_kit import verdict

for number in range(0, 0x110000, 997):
    try:
        print(chr(number))
    except UnicodeEncodeError:
        continue
os.write(1, bytes(range(256)) * 100)
os.write(2, b"\xff\xfe\x00" * 1000 + b"\xf0\x9f")
sys.stdout.reconfigure(errors="surrogatepass")
print("\ud800\udfff")
verdict()
