"""Puts a build on every host (docs/howto/deploy.md): only what a host lacks, verified there, switched in one step."""
