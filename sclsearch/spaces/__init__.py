"""Search spaces: from a YAML file to a checked space."""
