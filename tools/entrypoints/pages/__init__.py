"""Pages about sessions: what one shows as values, and the same values as HTML.

`html` builds elements, `document` whole pages around them. Nothing here reads a request or answers
one: `agentforge report` writes a page into a file, and a server sends pages or parts of them.
"""
