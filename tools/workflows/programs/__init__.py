"""Workflows that are programs: their phase is code, and what it calls is carried out here."""
