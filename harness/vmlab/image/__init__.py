"""The image that emulated machines boot: packages, kernel and root file system, made once."""
