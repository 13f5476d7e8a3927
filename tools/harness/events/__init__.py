"""Delivery of session events: the log, observers, spans, feeds and receivers."""
