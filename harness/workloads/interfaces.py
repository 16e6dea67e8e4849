"""Which NICs `NCCL_SOCKET_IFNAME` means: names or prefixes, with commas; `=` exactly these, `^` all others."""

from __future__ import annotations

from collections.abc import Iterable


def chosen(words: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that NCCL would use, sorted."""
    leading = words[: len(words) - len(words.lstrip("^="))]
    given = [word.partition(":")[0] for word in words[len(leading) :].split(",") if word]
    exact, but = "=" in leading, "^" in leading

    def meant(name: str) -> bool:
        return any(name == word if exact else name.startswith(word) for word in given)

    return sorted(name for name in names if meant(name) is not but)
