"""User Mode Linux as the guests of a vm lab: a kernel that runs as a process, 10 to 30 times as quick as emulation."""
