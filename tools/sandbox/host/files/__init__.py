"""Files as the guest sees them: on the host, in memory, paths, quota."""
