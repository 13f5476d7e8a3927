"""What the candidates of `benchmarks.sandbox` are given to run, and what they print."""

from __future__ import annotations

PRINT = {"code": "print(1)", "expect": "1\n"}
FAILS = {"code": "1 / 0", "expect": ""}
IMPORTS = {
    "code": """
import json, re, dataclasses
@dataclasses.dataclass
class Point:
    x: int
    y: int
found = [int(each) for each in re.findall(r"[0-9]+", "3 and 4")]
with open("/app/out.json", "w") as file:
    json.dump(dataclasses.asdict(Point(*found)), file)
print(json.load(open("/app/out.json"))["y"])
""",
    "expect": "4\n",
}
PANDAS = {
    "code": """
import pandas as pd
frame = pd.DataFrame({"name": list("abab"), "value": [1, 2, 3, 4]})
print(frame.groupby("name").value.sum().tolist())
""",
    "expect": "[4, 6]\n",
}
WRITE = {"code": "open('/app/out.txt', 'w').write('done')\nprint(1)", "expect": "1\n"}
LOOP = {
    "code": "s = 0\nfor i in range(200_000):\n    s = (s * 31 + i) % 1_000_003\nprint(s > 0)",
    "expect": "True\n",
}
MANY_FILES = {
    "code": """
import os
os.mkdir("/app/many")
for number in range(1000):
    with open(f"/app/many/{number}", "w") as file:
        file.write("some text\\n")
size = 0
for number in range(1000):
    with open(f"/app/many/{number}") as file:
        size += len(file.read())
for name in os.listdir("/app/many"):
    os.unlink(f"/app/many/{name}")
os.rmdir("/app/many")
print(size)
""",
    "expect": "10000\n",
}
LARGE_FILE = {
    "code": """
piece = b"x" * (1 << 20)
with open("/app/large", "wb") as file:
    for _ in range(10):
        file.write(piece)
size = 0
with open("/app/large", "rb") as file:
    while got := file.read(1 << 20):
        size += len(got)
import os
os.unlink("/app/large")
print(size >> 20)
""",
    "expect": "10\n",
}
