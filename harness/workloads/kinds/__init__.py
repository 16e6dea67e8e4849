"""Kinds of workloads: a class a kind has its settings and its command. They are entry points of `r2cc.workloads`."""
