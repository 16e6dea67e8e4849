"""What processes say of themselves in their status files (R2CC_STATUS_DIR), for people, agents and Prometheus; and how
they are asked to leave a NIC (R2CC_CONTROL_DIR)."""
