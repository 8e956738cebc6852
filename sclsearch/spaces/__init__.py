"""Search spaces: YAML files, their validation, and the resulting `Space` objects."""
