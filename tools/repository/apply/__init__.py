"""Applying a result to a person's checkout: merge, plan, apply, undo."""
