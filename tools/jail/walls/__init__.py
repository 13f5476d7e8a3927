"""The walls of the jail: folders, /etc, control groups, filters of system calls."""
