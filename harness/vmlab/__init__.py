"""The vm lab: QEMU guests with soft-RoCE NICs, joined by a switch in user space (docs/internals/vm-lab.md)."""
