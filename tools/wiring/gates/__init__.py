"""Adapters of the gate ports of `workflows`: the sandbox and the jail."""
