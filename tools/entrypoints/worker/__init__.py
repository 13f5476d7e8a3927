"""A session's process: runs one session at a time for a worker of the fleet.

The worker starts it, and talks to it by lines of JSON (`fleet.workers.messages`).
"""
