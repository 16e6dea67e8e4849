"""Pods as hosts: `kubectl exec` is what SSH is elsewhere, so that no pod needs an sshd."""
