"""For harness/cli.py, before its other imports: imported in a command's own process, it makes Ctrl-C end it at once."""

from __future__ import annotations

import sys

from harness import interrupts

if "pytest" not in sys.modules:
    interrupts.end_at_once()
