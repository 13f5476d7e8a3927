"""Sessions in directories: reading, deletion, copies, streams, ownership."""
