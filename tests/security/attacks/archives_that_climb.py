"""Unpack archives whose members lead out."""

import io
import os
import tarfile
import zipfile

from attack_kit import BASE, verdict

NAMES = ["../planted.txt", "../../planted.txt", BASE + "/planted.txt", "outside_link/planted.txt"]
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w") as archive:
    for name in NAMES:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        member = tarfile.TarInfo("way_out_" + kind.decode())
        member.type = kind
        member.linkname = "../outside"
        archive.addfile(member)
    for name in ("way_out_2/planted.txt",):
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
for number in range(8):  # noqa: B007
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        for member in archive.getmembers():
            try:
                archive.extract(member, "/app", filter="fully_trusted")
            except (OSError, KeyError, tarfile.TarError) as error:
                print("refused", member.name, type(error).__name__)
with zipfile.ZipFile("slip.zip", "w") as archive:
    for name in NAMES:
        archive.writestr(name, "x")
with zipfile.ZipFile("slip.zip") as archive:
    for name in archive.namelist():
        try:
            archive.extract(name, "/app")
            with open(os.path.join("/app", name), "wb") as file:
                file.write(archive.read(name))
        except (OSError, KeyError, ValueError) as error:
            print("refused", name, type(error).__name__)
verdict()
