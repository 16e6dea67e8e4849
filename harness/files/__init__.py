"""Files written whole or not at all, locks, and folders that are gone after use."""
