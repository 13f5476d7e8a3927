"""Sessions for many machines: where they are stored, their files, and who works on them.

`stores` opens where sessions are: a folder, or a database, of which nothing is loaded unless an
address names it. `postgres` keeps sessions and questions in PostgreSQL, `objects` files in an
object store, `workers` runs submitted sessions. Import the modules by name.
"""
