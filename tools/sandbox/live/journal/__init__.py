"""A turn's journal: what its guest is answered, so that it can run again."""
