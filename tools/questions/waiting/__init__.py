"""Waiting for answers: changes of a store or a directory, and who is woken by them."""
