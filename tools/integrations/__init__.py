"""What connects sessions to other people's systems; the core imports none of it.

`bridges` keeps what other SDKs keep in sessions (LangGraph, OpenAI Agents), `observers` tells
webhooks, desktops and commands of events, `telemetry` sets OpenTelemetry up in our own processes.
Each bridge needs its extra and is imported by its name.
"""
