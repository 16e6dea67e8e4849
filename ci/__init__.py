"""The regression gate (grows in its own issue); the package marks the top layer."""
