"""A report as HTML, Markdown, CSV, JUnit and on a terminal."""
