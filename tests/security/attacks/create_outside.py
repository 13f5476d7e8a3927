"""Create things outside."""

import os
import tempfile

from attack_kit import BASE, attempt, verdict, write

attempt("mkdir by climbing", os.mkdir, "../made")
attempt("mkdir absolute", os.mkdir, BASE + "/made")
attempt("write by climbing", write, "../made.txt")
attempt("write absolute", write, BASE + "/made.txt")
attempt("temporary file", lambda: tempfile.mkstemp(dir=BASE))
attempt("temporary directory", lambda: tempfile.mkdtemp(dir=BASE + "/outside"))
attempt("symlink there", os.symlink, "canary.txt", "../made_link")
verdict()
