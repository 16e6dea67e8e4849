"""What collectives cost on some machines: one form of file for the planner, NCCL (R2CC_COSTS) and the simulator."""
