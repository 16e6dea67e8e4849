"""What can be broken: one file a kind of fault, and what they share."""
