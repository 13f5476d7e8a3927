"""A small server of four tools, for agents whose program calls our hooks; needs no SDK."""
