"""The composition root: constructs adapters from settings and hands them to the packages below.

`bootstrap` makes managers and runners, `fleet` submits sessions and runs workers, `pruning` names
the kinds of sessions that go, `searching` looks through sessions and questions. `phases`, `gates`
and `workspaces` fill the ports of one package by another.
"""
