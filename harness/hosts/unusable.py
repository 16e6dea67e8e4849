"""A host that cannot even be asked, among others that can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from harness.errors import R2ccError


@dataclass(frozen=True)
class UnusableHost:
    """Whatever is wanted of it ends in the same error: what the inventory says of it is wrong."""

    name: str
    error: R2ccError

    def _fail(self, *_words: Any, **_options: Any) -> NoReturn:
        raise self.error

    run = spawn = put = get = read_text = _fail
