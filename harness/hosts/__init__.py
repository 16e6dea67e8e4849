"""A host is a thing that runs commands. Everything above this package is the same on every bed.

`run` starts a command, waits for it and returns its `Result`; `spawn` starts one and returns a `Process` whose stdout
streams. `env` is *added* to the caller's environment (a rank still needs PATH and HOME). No shell is involved.
"""

from harness.hosts.base import Host, Process, Redirect, Result
from harness.hosts.local import LocalHost, LocalProcess

__all__ = [
    "Host",
    "LocalHost",
    "LocalProcess",
    "Process",
    "Redirect",
    "Result",
]
