"""The experiment file: what it may say, and every mistake in it at once."""
