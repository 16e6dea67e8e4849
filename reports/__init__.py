"""Reports rendered from a run directory: terminal, Markdown, JSON and HTML."""
