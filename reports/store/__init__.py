"""The run store: run directories, and an index of them that can be made again from them at any time.

See docs/howto/runs.md.
"""
