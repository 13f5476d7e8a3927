"""Replace directories and files by each other while they are open."""

import os
import shutil

from attack_kit import verdict

for turn in range(30):
    os.makedirs("here/sub", exist_ok=True)
    files = [open(f"here/sub/{number}", "w+b") for number in range(5)]  # noqa: SIM115
    for file in files:
        file.write(b"x" * 1000)
    match turn % 4:
        case 0:
            shutil.rmtree("here", ignore_errors=True)
        case 1:
            os.rename("here/sub", f"other{turn}")
        case 2:
            os.rename("here", f"moved{turn}")
            with open("here", "w") as stand_in:
                stand_in.write("a file where a directory was")
        case 3:
            for number in range(4):
                os.replace(f"here/sub/{number}", "here/sub/4")
    for file in files:
        try:
            file.close()
        except OSError as error:
            print("refused", error.errno)
    if os.path.isfile("here"):
        os.remove("here")
verdict()
