"""The composition root: constructs adapters from settings and hands them to the packages below.

`bootstrap` builds managers and runners, `fleet` submits sessions and runs workers, `pruning` names
the kinds of sessions that can be pruned, `searching` searches sessions and questions. `phases`,
`gates` and `workspaces` implement the ports of one package with another.
"""
