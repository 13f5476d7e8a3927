"""Leave a file that says it is enormous."""

from attack_kit import verdict

with open("huge", "wb") as file:
    try:
        file.truncate(1 << 42)
        file.seek((1 << 42) - 1)
        file.write(b"x")
    except OSError as error:
        print("refused", error.errno)
verdict()
