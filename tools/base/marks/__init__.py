"""Ownership on this machine: a person's own marks, as opposed to what a clone brought."""
