"""Whether hosts are fit for a run: facts in, findings out (docs/reference/doctor.md)."""
