"""What a user wrote, read under limits: a damaged or hostile file ends in one clear error, never in a long wait."""
