"""Which modules belong to the code of a group."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from quorate import _fingerprint

INSTALLED = """
import json, time
from quorate import _fingerprint
import networkx, sortedcontainers
begun = time.process_time()
told = json.loads(_fingerprint.fingerprint({}))
print(json.dumps([told["packages"], sorted(told["sources"]), time.process_time() - begun]))
"""


def test_of_an_installed_package_the_version_belongs_to_the_code_and_no_source() -> None:
    done = subprocess.run([sys.executable, "-c", INSTALLED], capture_output=True, text=True, check=True)
    packages, sources, seconds = json.loads(done.stdout)
    assert set(packages) >= {"networkx", "sortedcontainers"}
    assert all(version[0].isdigit() for version in packages.values())
    assert [name for name in sources if name.partition(".")[0] in packages] == []
    assert seconds < 2, "the sources of packages are not read"


def test_what_a_package_imports_by_relative_names_belongs_to_the_code(tmp_path: Path) -> None:
    sources = {
        "shop/__init__.py": "def price():\n    from . import rates\n    from .deep import tax\n",
        "shop/rates.py": "",
        "shop/deep/__init__.py": "from ..beside import NAME\n",
        "shop/deep/tax.py": "from .. import rounding\n",
        "shop/beside.py": "NAME = 1\n",
        "shop/rounding.py": "",
        "shop/unused.py": "",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = _fingerprint._with_imports({"shop": tmp_path / "shop/__init__.py"})
    beside = {"shop.beside", "shop.rates", "shop.rounding"}
    assert set(found) == {"shop", "shop.deep", "shop.deep.tax", *beside}
