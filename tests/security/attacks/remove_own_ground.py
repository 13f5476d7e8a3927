"""Remove the working directory under its own feet."""

import os
import shutil

from attack_kit import attempt, verdict

os.makedirs("mine/deeper")
os.chdir("mine/deeper")
os.rmdir("/app/mine/deeper")
os.rmdir("/app/mine")
attempt("read in a gone directory", open, "x", "w")
try:
    os.listdir(".")
except OSError as error:
    print("gone", error.errno)
os.chdir("/app")
for function in (os.rmdir, os.unlink):
    attempt("the workspace itself", function, "/app")
shutil.rmtree("/app", ignore_errors=True)
print(os.listdir("/app"))
verdict()
