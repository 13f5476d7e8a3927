"""Agent programs that work on a workspace: in a jail, in a copy of it, each call by itself."""
