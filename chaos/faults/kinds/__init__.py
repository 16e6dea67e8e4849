"""Our faults: a class a kind, and what does the same inside a host. They are entry points of `r2cc.faults`."""
