"""What the manager does with a session: recording, checkpoints, questions."""
