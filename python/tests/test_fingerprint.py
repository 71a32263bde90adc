"""Which modules belong to the code of a group."""

from __future__ import annotations

from pathlib import Path

from quorate import _fingerprint


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
