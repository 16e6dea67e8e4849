"""The soak: random faults for as long as one likes, every byte checked, and a failure made as small as it gets."""
