"""Puts a build on every host (docs/deploy.md): only what a host lacks, verified there, switched in one step."""
