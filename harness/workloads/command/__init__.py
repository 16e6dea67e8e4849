"""Any program as a workload: what it prints, read as steps."""
