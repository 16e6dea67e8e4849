"""The scoreboard: figures that one command measures and another renders (docs/howto/scoreboard.md)."""
