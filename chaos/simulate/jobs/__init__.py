"""A training job of days under faults: what is kept, what is lost, and what that costs."""
