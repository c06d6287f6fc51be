"""How Sphinx makes a site of these pages: `scripts/docs`."""

import grain

project = "Grain"
version = release = grain.__version__
html_title = f"Grain {version}"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["site"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "code"  # docstrings put code in single backticks
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
