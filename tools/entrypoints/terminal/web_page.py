"""The page of the browser's server: a terminal, and the script that connects it with the key."""

from __future__ import annotations

from typing import Final

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Questions · agentforge</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/css/xterm.css">
<style>
@font-face {{
  font-family: "Roboto Mono";
  src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf");
}}
html, body {{ margin: 0; height: 100%; background: #121212; color: #e0e0e0; }}
body {{ font-family: "Roboto Mono", monospace; }}
.message {{ position: absolute; inset: 0; display: flex; align-items: center;
  justify-content: center; text-align: center; z-index: 10; background: #121212; }}
.message a {{ color: inherit; }}
.closed, .refused {{ display: none; }}
body.-first-byte .starting, body.-refused .starting {{ display: none; }}
body.-closed .closed, body.-refused .refused {{ display: flex; }}
body.-refused .closed {{ display: none; }}
</style>
<script src="/static/js/textual.js"></script>
<script src="/key.js" defer></script>
<script src="/questions.js" defer></script>
</head>
<body>
<div class="message starting"><div>Starting …<noscript><br>This page needs JavaScript.</noscript>
</div></div>
<div class="message closed"><div>The terminal has ended. What you typed is kept.<br><br>
<a href="/">Start it again</a></div></div>
<div class="message refused"><div>This page is not connected. Each address can be used once, within
ten minutes: this one was used,<br>is too old or is of a former start; or the server has ended, or
too many pages are open already.<br><br>Press Enter in the terminal where <code>agentforge questions
--web</code> runs: it prints another address.</div></div>
<div id="terminal" class="textual-terminal" data-session-websocket-url="ws://{host}/ws"
  data-font-size="{font_size}"></div>
</body>
</html>
"""

SCRIPT: Final = """\
// The terminal would open its socket as soon as the page has loaded; it is to wait for the key.
const connect = window.onload;
window.onload = null;
const loaded = new Promise((resolve) => window.addEventListener("load", resolve));

const Socket = window.WebSocket;
let connected = false;
window.WebSocket = class extends Socket {
  constructor(address) {
    super(address, ["agentforge.questions", agentforgeKey.value]);
    this.addEventListener("open", () => { connected = true; });
  }
};

let began = false;
agentforgeKey.find(async () => {
  if (began) return location.reload(); // another key, by the code that this page leaves
  began = true;
  document.body.classList.remove("-refused");
  connect.call(window, await loaded);
}, () => document.body.classList.add("-refused"));

new MutationObserver((_, observer) => {
  const now = document.body.classList;
  if (now.contains("-closed") && !connected) {
    observer.disconnect();
    now.add("-refused");
  } else if (now.contains("-first-byte")) {
    observer.disconnect();  // the keyboard is the terminal's as soon as there is something to see
    document.querySelector("#terminal textarea")?.focus();
  }
}).observe(document.body, { attributeFilter: ["class"] });
"""


def page_for(host: str, *, font_size: int) -> str:
    """Return the page; it holds nothing of any session, and loads nothing from anywhere else.

    Args:
        host: The name and port that the browser called the server by.
        font_size: The size of the letters, in pixels.
    """
    return _PAGE.format(host=host, font_size=font_size)
