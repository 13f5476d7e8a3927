"""Prompts for agents, their answers, and the files they may write."""
