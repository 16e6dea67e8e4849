"""The hosts of a run and what is started on them."""
