"""Observers that tell others: webhooks, desktop notifications, a person's own command."""
