"""Sessions as rows: saved, listed, streamed, pruned, locked."""
