"""Configuration of the documentation site: `make docs`, or sphinx-build docs build/docs."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "cloze"
author = "The cloze authors"
project_copyright = f"{author}, Apache-2.0"
release = metadata.version("cloze-bert")

extensions = ["myst_nb", "sphinx.ext.viewcode", "sphinx_copybutton", "sphinx_design", "generated"]
exclude_patterns = ["extensions", "theme"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
highlight_language = "text"
copybutton_selector = "div.highlight-sh pre, div.highlight-python pre, div.highlight-toml pre"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
nb_execution_mode = "off"  # the notebooks contain their outputs; a test runs them
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # the site loads nothing from other hosts

add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
viewcode_follow_imported_members = True
viewcode_line_numbers = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!cloze\.).*"),  # documented on other sites: the standard library, torch, numpy
]

html_theme = "furo"
html_title = "cloze"
html_static_path = ["theme"]
html_css_files = ["cloze.css"]
html_js_files = ["accessible.js"]
html_search_scorer = str(Path(__file__).parent / "extensions" / "search_scorer.js")
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f5fb3", "color-brand-content": "#2f5fb3"},
    "dark_css_variables": {"color-brand-primary": "#8ab4f8", "color-brand-content": "#8ab4f8"},
}
