"""How the documentation is built (``make docs``): warnings are errors, and no page loads anything from a network."""

import re
from importlib.metadata import version as installed

project = "bilsh"
author = "The bilsh developers"
copyright = "the bilsh developers"
release = version = installed("bilsh")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.katex",
]
exclude_patterns = ["_build", "gallery/*.md5", "gallery/*.py", "gallery/GALLERY_HEADER.rst"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Style sheet and fonts lie beside the pages; the extension brings KaTeX itself along.
katex_css_path = "katex/katex.min.css"

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
# Attributes are described in the docstring of their class.
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,  # its page would load scripts from a network
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "bilsh"
html_static_path = ["_static"]
html_show_sourcelink = False
html_sidebars = {"index": [], "tutorial": []}
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

GIVEN = {f"bilsh.{name}" for name in ("Estimate", "Matches", "Neighbors", "Store")}
"""Classes that nobody calls: their objects are given."""


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what a class inherits from elsewhere, as estimators do."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    return skip or not (getattr(function, "__module__", None) or "bilsh").startswith("bilsh")


def signature_of(app, what, name, obj, options, signature, returned):
    """Show how a class is called where somebody calls it, and no arguments that are for tests."""
    if name in GIVEN:
        return "", None
    return (re.sub(r", _\w+=[^,)]*", "", signature), returned) if signature else None


def setup(app):
    """Register both."""
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", signature_of)
