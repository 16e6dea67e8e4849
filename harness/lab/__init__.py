"""The lab: network namespaces as hosts, veth pairs as NICs, one bridge a rail, token buckets (docs/howto/lab.md)."""
