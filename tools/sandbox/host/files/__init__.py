"""The guest's files: on the host, in memory, path resolution, quota."""
