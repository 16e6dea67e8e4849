"""Reports of simulations: HTML, Markdown, CSV and a few lines for a terminal, from simulation.json alone."""
