"""Lets tests import the helpers that lie beside them (chaos_double, chaos_literal)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
