# long
"""Leave many files."""

import os

from attack_kit import verdict

os.mkdir("many")
for number in range(3000):
    os.close(os.open(f"many/{number}", os.O_CREAT | os.O_WRONLY))
verdict()
