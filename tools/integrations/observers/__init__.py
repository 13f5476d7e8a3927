"""Observers that notify others: webhooks, desktop notifications, a person's own command."""
