"""Reads what flight recorders dumped (docs/trace.md) and says what each connection did around a stall."""
