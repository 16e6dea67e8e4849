"""What is said of a run without pictures: names, units, tables, sentences."""
