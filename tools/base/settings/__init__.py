"""A person's project: its configuration file, what kind of project it is, how one is begun."""
