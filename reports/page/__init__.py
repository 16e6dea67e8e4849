"""What a report says, computed once for all formats."""
