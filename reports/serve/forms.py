"""The JSON of this folder: what its commands print, and what it writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from harness.schemas.forms import Forms


class Serve(TypedDict):
    schema: Literal[1]
    address: Annotated[str, Field(pattern=r"^http://")]


SCHEMAS: Forms = {
    "serve": ("r2cc serve", Serve),
}
