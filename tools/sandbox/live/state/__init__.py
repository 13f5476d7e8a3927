"""The parts of a machine's state as values, packed, and as checked text.

`tree_state` and `descriptor_state` take files in memory and descriptors and bring them back;
`description` turns them into JSON and checks what comes back; `pages` packs memory.
"""
