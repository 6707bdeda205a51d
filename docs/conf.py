"""The site: ``make docs`` builds it into docs/_build/html, without a connection and without warnings."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import kernelpursuit

project = "kernelpursuit"
author = "The kernelpursuit developers"
copyright = f"2026, {author}"
version = release = kernelpursuit.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "_extensions.from_records",
    "_extensions.repository_files",
]
exclude_patterns = ["_build", "_static", "_extensions", "gallery/**.ipynb", "gallery/**.py", "Thumbs.db"]
templates_path = ["_templates"]
default_role = "py:obj"
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # settings that are functions, of the gallery

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": (True, "jshtml"),
    "remove_config_comments": True,
    "show_memory": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("kernelpursuit",),
    "reference_url": {"kernelpursuit": None},
    "download_all_examples": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
    "show_signature": False,
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = f"kernelpursuit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "kernelpursuit", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "header_links_before_dropdown": 9,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "show_nav_level": 1,
    "navigation_with_keys": False,
}
html_sidebars = {"when_not": [], "index": [], "results/*": ["sidebar-nav-bs"]}


def without_foreign_links(app, what, name, obj, options, lines):
    """Methods that come from scikit-learn link to pages of its site, which are not here: keep the words."""
    lines[:] = re.sub(r":ref:`([^`]*?)\s*<[^`]*>`", r"\1", "\n".join(lines)).split("\n")


def without_contents(app, page, template, context, doctree):
    """Pages with wide tables or long names have no room for a list of contents beside them."""
    if page.startswith(("results/", "reference/generated/")):
        context["meta"] = {**(context.get("meta") or {}), "html_theme.sidebar_secondary.remove": "true"}


def setup(app):
    """Hooks of this site."""
    app.connect("html-page-context", without_contents, priority=400)
    app.connect("autodoc-process-docstring", without_foreign_links, priority=900)
