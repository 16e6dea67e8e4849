"""The compiled core (r2cc_patches/sim): one collective on what is left of a cluster."""
