# host memory: 600
"""Fill the workspace by one file."""

from attack_kit import escaped, verdict

try:
    with open("big", "wb") as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
            file.flush()
except (OSError, MemoryError) as error:
    print("refused", type(error).__name__)
else:
    escaped("two hundred megabytes in one file")
verdict()
