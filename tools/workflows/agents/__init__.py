"""Agents, which do the work of a phase: the port to them, and `choice`, which finds one by name.

Those of this package are in `agents.running`, and are found as those of other packages are.
"""
