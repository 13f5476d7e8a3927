# long
"""Have others do the work."""

import concurrent.futures
import multiprocessing
import multiprocessing.pool

from attack_kit import attempt, verdict


def work(kind):
    with kind(1) as pool:
        return list(pool.map(abs, [1]))


for name in ("ThreadPoolExecutor", "ProcessPoolExecutor", "InterpreterPoolExecutor"):
    attempt(name, lambda n=name: work(getattr(concurrent.futures, n)))
attempt("thread pool", lambda: work(multiprocessing.pool.ThreadPool))
attempt("process pool", lambda: multiprocessing.Pool(1))
for name in ("Queue", "Pipe", "Manager", "Value", "Lock"):
    attempt(name, lambda n=name: getattr(multiprocessing, n)(*([] if n != "Value" else ["i"])))
verdict()
