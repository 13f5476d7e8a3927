"""The one reader: typed values out of YAML, TOML, JSON or a mapping, all faults at once.

`fields` takes them by name, `faults` collects what is wrong, `nodes` says what a value is;
`yaml_nodes`, `toml_values` and `json_values` turn bytes into what `fields` reads.
"""
