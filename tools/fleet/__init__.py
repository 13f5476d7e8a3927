"""Sessions for many machines: their store, their files, and the workers that run them.

`stores` opens the store of an address and loads nothing else; the adapters of PostgreSQL are in
`postgres`; `objects` stores the files of sessions as objects, `workers` runs
submitted sessions. Import the modules by name.
"""
