"""The one reader: typed values out of YAML, TOML, JSON or a mapping, all faults at once.

`fields` takes them by name, `faults` collects the faults, `nodes` interprets single values;
`yaml_nodes`, `toml_values` and `nodes.parse_json` turn bytes into the input of `fields`.
"""
