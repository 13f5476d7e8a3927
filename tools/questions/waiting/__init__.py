"""Waiting for answers: the changes of a store or a directory, and the waits they wake."""
