"""Writes harness/schemas/*.schema.json from the models in the `forms.py` of all layers: `make schemas`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.schemas.forms import schema_of

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "harness" / "schemas"
LAYERS = ("harness", "chaos", "reports", "ci")


def schemas() -> dict[str, dict[str, Any]]:
    """All of them by name. ValueError: two folders have one of the same name."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("forms.py") if file.parent != FOLDER):
        module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        for name, form in module.SCHEMAS.items():
            if name in found:
                raise ValueError(f"{file}: there is a schema {name} elsewhere")
            found[name] = form() if callable(form) else schema_of(name, *form)
    return found


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
