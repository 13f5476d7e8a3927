"""The harness's ports, filled: phases in the sandbox or the jail, questions to a person."""
