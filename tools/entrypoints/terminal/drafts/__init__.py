"""Drafts of answers, stored until they are sent."""
