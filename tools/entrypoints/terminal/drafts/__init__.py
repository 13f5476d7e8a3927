"""Answers that are being written, and kept until they are sent."""
