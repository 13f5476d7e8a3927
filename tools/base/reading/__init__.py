"""The readers of documents: values out of YAML and TOML, all faults at once, with their lines."""
