"""Commands by which people and their clients come in."""
