"""Put something in the place of the session's own file, or take it away."""

import os
import shutil

from attack_kit import attempt, escaped, verdict

os.makedirs("forged")
with open("forged/.metadata.json", "w") as file:
    file.write('{"session_id": "neighbour"}')
attempt("a file up", os.rename, "forged/.metadata.json", ".metadata.json")
attempt("a file over", os.replace, "forged/.metadata.json", "/app/.METADATA.json")
attempt("a directory", os.rename, "forged", ".metadata.json")
attempt("away", os.rename, ".metadata.json", "forged/taken.json")
attempt("the whole ground", os.rename, "/app", "/other")
attempt("the ground over", os.rename, "forged", "/app")
attempt("copied", shutil.copyfile, ".metadata.json", "copy.json")
attempt("moved", shutil.move, ".metadata.json", "/tmp/moved.json")
attempt("tree copied over", shutil.copyfile, "forged/.metadata.json", ".metadata.json")
shutil.copytree("/app", "/tmp/copy", ignore_dangling_symlinks=True)
if os.path.exists("/tmp/copy/.metadata.json"):
    escaped("it came along with a copy of the tree")
verdict()
