"""The dead-man switch: the undo of a fault lies armed on the host that it breaks, with a time to live."""
