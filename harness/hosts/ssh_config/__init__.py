"""The user's OpenSSH configuration, read as `ssh` reads it (ssh_config(5)): what it says of one host."""

from harness.hosts.ssh_config.lines import SshConfigError
from harness.hosts.ssh_config.lookup import Config, Options
from harness.hosts.ssh_config.question import Question

__all__ = ["Config", "Options", "Question", "SshConfigError"]
