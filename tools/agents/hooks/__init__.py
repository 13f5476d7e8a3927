"""An agent program's own conversation, bound to a session: what its hooks record, and answer.

Whatever goes wrong, the agent's turn goes on; only a spent budget stops it. Nothing runs between
two calls of the hook, and no model is asked.
"""
