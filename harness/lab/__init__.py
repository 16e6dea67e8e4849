"""The lab: namespaces as hosts, veth pairs as NICs, one bridge a rail, token buckets (docs/internals/lab.md)."""
