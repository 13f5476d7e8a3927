"""The screens of the terminal."""
