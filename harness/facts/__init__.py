"""What hosts are: one command, one pure function from its output to a typed frozen value (docs/reference/doctor.md)."""

from harness.facts.base import Fact, FactError, Known, NotAvailable

__all__ = ["Fact", "FactError", "Known", "NotAvailable"]
