"""One iteration of a model's training: layout, state of the NICs, time."""
