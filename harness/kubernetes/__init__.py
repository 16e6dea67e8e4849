"""Manifests of jobs that use the net plugin. Pure: nothing is asked of a cluster."""
