"""Read outside by paths that normalise to something else."""

from attack_kit import BASE, attempt, read, verdict

for path in [
    "//etc/passwd",
    "///etc///passwd",
    "/app//../..//outside//secret.txt",
    "/app/./.././outside/./secret.txt",
    ".//..//outside/secret.txt",
    "/app/../app/../outside/secret.txt",
    "//" + BASE + "/outside/secret.txt",
    "/app" + BASE + "/outside/secret.txt",
    "/app/..//" + BASE + "//outside/secret.txt",
    "notes.txt/../../outside/secret.txt",
    "nowhere/../../outside/secret.txt",
    "..//./outside/./secret.txt",
]:
    attempt(path, read, path)
verdict()
