"""Runs the CloudLab profile as CloudLab's portal does, many times in one process of its own.

`cloudlab_portal.py PROFILE < cases.json > answers.json`: a case is what the form says, an answer is the request's XML,
or the errors and the exit code. One module of the geni-lib that PyPI has, geni.portal, wants Python 2.7, and another
writes bytes to text files; both are mended here in memory. Everything else is geni-lib as it is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import sys
import tempfile
import types
from pathlib import Path
from typing import Any


def main() -> None:
    profile, cases = sys.argv[1], json.load(sys.stdin)
    portal = mended_portal()
    json.dump([answer(portal, profile, case) for case in cases], sys.stdout)


def mended_portal() -> Any:
    import geni
    from geni.rspec import pg

    path = Path(geni.__file__ or "").with_name("portal.py")
    text = re.sub(r"(?m)^(\s*)print (.+)$", r"\1print(\2)", path.read_text())
    module = types.ModuleType("geni.portal")
    module.__file__, module.__package__ = str(path), "geni"
    sys.modules["geni.portal"] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    geni.portal = module  # type: ignore[attr-defined]
    pg.Request.writeXML = lambda self, path: Path(path).write_text(self.toXMLString(True, ucode=True))
    return module


def answer(portal: Any, profile: str, case: dict[str, Any]) -> dict[str, Any]:
    portal.Context._instance, portal.Context._initialized = None, False
    errors = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(errors):
        files = {name: Path(folder) / name for name in ("PARAMS", "REQUEST")}
        files["PARAMS"].write_text(json.dumps(case))
        os.environ.update({f"GENILIB_PORTAL_{name}_PATH": str(path) for name, path in files.items()})
        os.environ["GENILIB_PORTAL_MODE"] = "1"
        try:
            runpy.run_path(profile, run_name="__main__")
        except SystemExit as end:
            return {"exit": end.code, "errors": json.loads(errors.getvalue())}
        return {"exit": 0, "xml": files["REQUEST"].read_text()}


if __name__ == "__main__":
    main()
