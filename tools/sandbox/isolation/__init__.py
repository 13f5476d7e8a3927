"""Executions in another process: the worker, its host's side, their protocol."""
