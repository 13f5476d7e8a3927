"""Programs in the sandbox that outlive their process: their state, in memory and as a file.

`journal` notes what a turn is answered, so that it can run again and go on where it was killed.
`capture` takes a machine's state between two turns and gives it to another machine;
`snapshot_file` turns a state into bytes and back. What a snapshot holds is untrusted: all of it is
checked before anything is restored.
"""
