"""Pack everything around into an archive."""

import os
import shutil
import tarfile
import zipfile

from attack_kit import BASE, INSIDE, attempt, escaped, verdict

for place in ("../outside", BASE, "outside_link", "../neighbour"):
    attempt("pack " + place, shutil.copytree, place, "stolen")
for place in ("../outside/secret.txt", "secret_link", BASE + "/canary.txt", ".metadata.json"):
    with zipfile.ZipFile("a.zip", "w") as archive:
        attempt("zip " + place, archive.write, place)
    with tarfile.open("a.tar", "w") as archive:
        attempt("tar " + place, archive.add, place)
with tarfile.open("/tmp/all.tar", "w", dereference=True) as archive:
    for name in os.listdir("/app"):
        if name not in INSIDE:  # links that lead nowhere, whose targets can't be packed
            archive.add(f"/app/{name}")
with tarfile.open("/tmp/all.tar") as archive:
    if any(name.endswith(("secret.txt", ".metadata.json")) for name in archive.getnames()):
        escaped("it came along")
verdict()
