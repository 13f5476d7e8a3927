"""Have libraries that remove everything remove the session's own file too."""

import glob
import os
import pathlib
import shutil

from attack_kit import attempt, escaped, verdict

for found in (
    glob.glob(".*", root_dir="/app"),
    glob.glob("**", recursive=True, include_hidden=True),
    [str(path) for path in pathlib.Path("/app").rglob("*")],
    [name for _, _, files in os.walk("/app") for name in files],
):
    if any("metadata" in name for name in found):
        escaped("found among " + repr(found)[:100])
shutil.rmtree("/app", ignore_errors=True)
for entry in os.listdir("/app"):
    try:
        os.remove(entry)
    except OSError as error:
        print("kept", error.errno)
attempt("still nothing there", os.stat, ".metadata.json")
verdict()
