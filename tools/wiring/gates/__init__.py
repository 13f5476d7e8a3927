"""Gates: the ports of workflows, filled by the sandbox and the jail."""
