"""Cases of the net library, played by `net_driver` between two hosts of a lab made for each.

See docs/internals/net-cases.md.
"""
