"""Hooks of agent programs: record a conversation in its session and answer the program.

An error never ends the agent's turn; only a spent budget does. Nothing runs between two calls of
the hook, and no model is called.
"""
