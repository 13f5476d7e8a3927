"""Agent programs that people run: Claude Code, Codex, Gemini CLI, opencode.

`programs` parses their events, usage and transcripts and imports no session; `hooks` records a
conversation in a session; `setup` installs our files in a program and removes them; `running` runs
a program on a workspace in the jail. A runner sees them through `workflows.agents.port` only.
"""
