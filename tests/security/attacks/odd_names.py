"""Leave files with names that hurt terminals, parsers and encoders."""

from attack_kit import verdict

for name in [
    "new\nline",
    "tab\t",
    "\x1b[31mred\x07",
    "-rf",
    "--help",
    "a" * 255,
    " lead",
    "trail ",
    "quo'te\"",
    "back\\slash",
    "*?[",
    "$(touch x)",
    "\u202eright-to-left",
    "e\u0301 combining",
    "\U0001f4a3",
    "\ufeffbom",
    "\u2028",
    "\x7f",
    "con",
    "%s%n",
    "..a",
    "...",
]:
    try:
        with open("/app/" + name, "w") as file:
            file.write("x")
    except OSError as error:
        print("refused", ascii(name), error.errno)
verdict()
