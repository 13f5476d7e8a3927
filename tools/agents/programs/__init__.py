"""Adapters to the agent programs that people run: their events, answers, usage and output.

One module per program; none imports a session. The modules are loaded by name, because the hook,
which an agent waits for at every tool call, needs only one of them.
"""
