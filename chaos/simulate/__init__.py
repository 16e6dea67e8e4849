"""What a cluster of any size would do under faults: modelled, with the planner's own schedules."""
