"""Session services of the manager: recording, checkpoints, questions."""
