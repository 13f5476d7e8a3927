"""Shared foundations of every package; nothing here depends on sessions.

Loose modules are single mechanisms: errors, time, ids, results, cancellation, the log, strict YAML,
one run of a program. `files` writes, locks and walks durably, `settings` reads a person's and a
project's configuration, `tracing` passes spans to a tracing backend. Import the modules by name.
"""
