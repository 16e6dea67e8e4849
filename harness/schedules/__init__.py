"""The planner of schedules, asked through its compiled library."""
