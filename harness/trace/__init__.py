"""Reads what flight recorders dumped (docs/internals/trace.md) and says what each connection did around a stall."""
