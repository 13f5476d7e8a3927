"""The commands, by theme. The `add_to` of each module adds its own to an application."""
