"""Session process: runs one session at a time for a worker of the fleet.

The worker starts it and exchanges lines of JSON with it (`fleet.workers.messages`).
"""
