"""What each workload on torch can be told (`--set`, and `workload` of an experiment): one model a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from harness.config.words import listed, shown
from harness.errors import InputErrors, UsageError
from harness.units import parse_bytes

SIZE_IN_WORDS = r"^[0-9.]+ *([KMGTkmgt](i?B)?|B)$"
MIB = 1024 * 1024
Count = Annotated[StrictInt, Field(gt=0, le=1_000_000)]
Small = Annotated[StrictInt, Field(gt=0, le=1024)]
Small16 = Annotated[StrictInt, Field(gt=0, le=65536)]


def _size(value: object) -> object:
    """A size in words as bytes; ValueError, for pydantic, for what is none."""
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(error.message) from error


Whole = Annotated[StrictInt, Field(ge=4, le=16 * 1024 * MIB, multiple_of=4)]
Bytes = Annotated[
    Whole, BeforeValidator(_size, json_schema_input_type=Whole | Annotated[str, Field(pattern=SIZE_IN_WORDS)])
]
"""As 67108864, 64M or 64MiB."""
Type = Literal["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"]


class Settings(BaseModel):
    """Unknown names are errors: a mistyped setting must not be one that is not there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Collectives(Settings):
    """Of collectives through torch."""

    bytes: Bytes = MIB
    """Of each rank's contribution to each collective."""
    ops: tuple[StrictStr, ...] = ()
    """None: all that there are."""
    dtypes: tuple[Type, ...] = ("float32",)


class Ddp(Settings):
    """Of the training with torch's DistributedDataParallel."""

    layers: Small = 4
    hidden: Small16 = 256
    heads: Small = 4
    sequence: Small16 = 128
    vocabulary: Count = 512
    batch: Small = 4
    """Sequences of a rank."""
    bucket_mb: Small = 4
    checkpoint_every: Annotated[StrictInt, Field(ge=0, le=1_000_000)] = 0
    """Steps; the arm `restart` goes on from the last one kept. 0: never."""


class Megatron(Settings):
    """Of the training with Megatron-core."""

    tp: Small = 1
    pp: Small = 1
    layers: Small = 8
    hidden: Small16 = 1024
    heads: Small = 16
    sequence: Small16 = 512
    vocabulary: Count = 8192
    micro_batch: Small = 2
    micro_batches: Small = 2
    """Of a step."""
    dtype: Literal["float32", "bfloat16"] = "float32"


class Decode(Settings):
    """Of inference with tensor parallelism."""

    layers: Small = 8
    hidden: Small16 = 1024
    heads: Small = 16
    vocabulary: Count = 4096
    batch: Small = 8
    prompt: Small16 = 256
    tokens: Small16 = 64
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class DdpAlone(Ddp):
    """Outside of an experiment the user says where checkpoints lie."""

    checkpoint: Annotated[StrictStr, Field(min_length=1)] | None = None


KINDS: Mapping[str, type[Settings]] = {
    "collectives": Collectives,
    "ddp": DdpAlone,
    "megatron": Megatron,
    "decode": Decode,
}


def checked(kind: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was given, which the workload understands. InputErrors with every setting that it does not."""
    try:
        KINDS[kind].model_validate(given)
    except ValidationError as error:
        raise InputErrors([_words(kind, dict(problem)) for problem in error.errors()]) from error
    return given


def _words(kind: str, problem: Mapping[str, Any]) -> str:
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"--set {name}: {kind} has no such setting; it has {listed(KINDS[kind].model_fields)}"
    said = str(problem["msg"])
    return f"--set {name}: {said[:1].lower()}{said[1:]}, not {shown(problem['input'])}"
