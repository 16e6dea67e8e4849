"""What ranks print, line by line, as lines of docs/reference/contracts.md."""
