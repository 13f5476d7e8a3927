"""What is known of the agent programs that people run: their events, answers, usage and output.

A module for each program; nothing here knows a session of ours. The modules are loaded by name,
because the hook, which an agent waits for at every tool call, needs one of them.
"""
