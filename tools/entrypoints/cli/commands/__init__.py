"""The commands, by theme; `cli.main` and the groups list them and load each on demand."""
