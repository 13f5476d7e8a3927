"""What every package stands on; nothing here knows a session.

Loose modules are single mechanisms: errors, time, ids, results, cancellation, the log, strict YAML,
one run of a program. `files` writes, locks and walks durably, `settings` reads a person's and a
project's configuration, `tracing` hands spans to whoever takes them. Import the modules by name.
"""
