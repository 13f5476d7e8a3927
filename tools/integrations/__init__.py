"""Connects sessions to other systems; the core imports none of it.

`bridges` stores other SDKs' data in sessions (LangGraph, OpenAI Agents), `observers` sends events
to webhooks, desktops and commands, `telemetry` sets up OpenTelemetry in our own processes. Each
bridge needs its extra and is imported by its name.
"""
