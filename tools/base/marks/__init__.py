"""What is this person's own on this machine: their marks, and what a clone brought instead."""
