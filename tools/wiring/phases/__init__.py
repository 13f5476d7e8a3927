"""Adapters of the harness's ports: phases in the sandbox or the jail, questions to a person."""
