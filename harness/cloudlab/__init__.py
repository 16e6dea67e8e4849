"""CloudLab: the profile that asks for machines, the script that sets them up, and their manifest as an inventory."""
