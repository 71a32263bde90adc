"""How `make guide` makes pages of this folder."""

project = "Quorate"
html_theme = "furo"
html_title = "Quorate: a user's guide"
extensions = ["sphinx.ext.extlinks"]
extlinks = {"repo": ("https://github.com/quorate/quorate/blob/main/%s", "%s")}
