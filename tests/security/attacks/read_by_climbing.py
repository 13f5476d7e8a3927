"""Read the secret through `..`, in every spelling."""

import os

from attack_kit import BASE, attempt, attempt_above, read, verdict

os.makedirs("deep/er", exist_ok=True)
for path in [
    "../outside/secret.txt",
    "/app/../outside/secret.txt",
    "/app/deep/../../outside/secret.txt",
    "deep/er/../../../outside/secret.txt",
    "./.././outside/secret.txt",
    "/app//..//outside/secret.txt",
    "../../../../../../../../../../../.." + BASE + "/outside/secret.txt",
    "/../../../.." + BASE + "/outside/secret.txt",
    "/tmp/../../../../../../../.." + BASE + "/outside/secret.txt",
    "/usr/local/lib/../../../../../../../../.." + BASE + "/outside/secret.txt",
    "..\\outside\\secret.txt",
    "%2e%2e/outside/secret.txt",
]:
    attempt(path, read, path)
attempt_above("list above", lambda: os.open("..", os.O_RDONLY))
os.chdir("deep/er")
attempt("from below", read, "../../../outside/secret.txt")
verdict()
