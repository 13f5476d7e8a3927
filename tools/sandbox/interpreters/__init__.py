"""Interpreters: prepared once, opened, pooled, lent to executions, restored."""
