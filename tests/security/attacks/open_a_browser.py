"""Have a browser do it."""

import webbrowser

from attack_kit import BASE, attempt, verdict


def browse(url):
    if not webbrowser.open(url):
        raise OSError("no browser")


for url in ("http://127.0.0.1/", "file://" + BASE + "/canary.txt"):
    attempt("browse " + url, browse, url)
attempt("register", lambda: webbrowser.get("/bin/sh -c %s").open("true") or open("/nowhere"))  # noqa: SIM115
verdict()
