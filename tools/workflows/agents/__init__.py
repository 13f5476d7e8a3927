"""Agents, which do the work of a phase: their port, and `choice`, which finds one by name.

This package's own agents are in `agents.running`; they are found like those of other packages.
"""
