# long
# expect: trapped memory, or exit 1
# policy: memory_bytes=134217728
"""Take all memory by a small archive that is large inside."""

import bz2
import zlib

print("CONTAINED", flush=True)
engine = zlib.compressobj(9)
bomb = b"".join(engine.compress(bytes(1 << 22)) for _ in range(40)) + engine.flush()
print(len(bomb), len(bz2.compress(bytes(1 << 20))), flush=True)
zlib.decompress(bomb)
