"""Executions in another process: the worker, the host's side, their protocol."""
