"""The commands, by theme. Each module adds its own to the application it is given."""
