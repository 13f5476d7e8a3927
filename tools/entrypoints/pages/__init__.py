"""Pages about sessions: the contents as plain values (`values`), and their rendering as HTML.

`html` builds elements, `document` builds complete pages from them. Nothing here handles HTTP
requests: `agentforge session report` writes a page to a file, and a server sends pages or parts of
them.
"""
