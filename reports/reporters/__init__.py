"""What is called after a run and after a campaign: the entry points of pyproject.toml."""
