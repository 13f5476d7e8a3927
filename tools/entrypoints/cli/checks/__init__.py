"""Checks of `agentforge doctor`."""
