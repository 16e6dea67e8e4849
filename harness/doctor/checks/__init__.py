"""The checks by subject. Each is a small pure function from facts to what was seen."""
