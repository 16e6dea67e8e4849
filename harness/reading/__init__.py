"""Files that anybody may have written: read within limits of kind, size and depth, or refused with the reason."""
