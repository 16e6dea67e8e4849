"""Runs as pandas DataFrames, with units in the names of columns: `import r2cc` and `r2cc runs export` show them."""
