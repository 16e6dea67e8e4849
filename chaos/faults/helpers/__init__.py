"""Programs that faults start on hosts."""
