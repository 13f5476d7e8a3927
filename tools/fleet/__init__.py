"""Sessions for many machines: where they are stored, their files, and who works on them.

`stores` opens what an address names and loads nothing else, `opening` opens PostgreSQL stores,
whose adapters stand in `postgres`; `objects` has the files of sessions in an object store,
`workers` runs submitted sessions. Import the modules by name.
"""
