"""Writes harness/schemas/*.schema.json from all that is marked as a `form`: `make schemas`."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.schemas.form import FORMS
from harness.schemas.made import schema_of

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "harness" / "schemas"
MARK = re.compile(r"^@?form\(", re.MULTILINE)
LAYERS = ("harness", "chaos", "reports", "ci")


def schemas() -> dict[str, dict[str, Any]]:
    """All of them by name."""
    for file in sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py") if file.parent != FOLDER):
        if MARK.search(file.read_text(encoding="utf-8")):
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    models: dict[str, list[Any]] = {}
    for model, about in FORMS.items():
        models.setdefault(about.name, []).append(model)
    return {name: _schema(name, those) for name, those in models.items()}


def _schema(name: str, models: list[Any]) -> dict[str, Any]:
    """Of classes, or what a function says."""
    made: dict[str, Any]
    made = schema_of(name, FORMS[models[0]].title, models) if isinstance(models[0], type) else models[0]()
    return made


def text_of(schema: dict[str, Any]) -> str:
    """As it is in its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    """What every file should hold."""
    return {FOLDER / f"{name}.schema.json": text_of(schema) for name, schema in schemas().items()}


def main() -> None:
    wanted = files()
    for path in set(FOLDER.glob("*.schema.json")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
