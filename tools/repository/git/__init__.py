"""The only code that runs git, and the git objects and settings that this library uses."""
