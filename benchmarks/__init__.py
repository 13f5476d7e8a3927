"""Measurements, as ratios against named references taken in the same run."""
