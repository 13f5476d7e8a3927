"""Run work from commands: here, in the sandbox's shell, or submitted to the fleet."""
