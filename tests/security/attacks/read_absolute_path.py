"""Read the secret by its absolute path on the host."""

from attack_kit import BASE, attempt, read, verdict

attempt("absolute", read, BASE + "/outside/secret.txt")
attempt("canary", read, BASE + "/canary.txt")
attempt("workspace by its host path", read, BASE + "/workspace/notes.txt")
attempt("file url", read, "file://" + BASE + "/outside/secret.txt")
verdict()
