"""The agent programs that people run: Claude Code, Codex, Gemini CLI, opencode.

`programs` knows their events, usage and transcripts and no session of ours; `hooks` records a
conversation in a session; `setup` installs and removes our place in a program; `running` has a
program work on a workspace in the jail. `workflows.agents.port` is what a runner knows of them.
"""
