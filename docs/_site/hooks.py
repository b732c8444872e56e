"""What the site adds to its pages while it is built: formulas, names, gallery pages, Mermaid.

Formulas become MathML, which browsers draw without a script. `<!-- names of MODULE -->` becomes the
reference of all that the module offers. Examples become pages with what they printed and drew.
"""

from __future__ import annotations

import ast
import html
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pooch
from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import gallery

logger = logging.getLogger("mkdocs.hooks")
ROOT = Path(__file__).parents[2]
# Estimators have many of their methods from classes of ours that are not listed themselves.
_OPTIONS = {"proxlin.estimators": "\n    options:\n      inherited_members: true"}
NAMES = re.compile(r"<!-- names of ([\w.]+)(?: but ([\w, ]+))? -->")
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL
)  # as pymdownx.arithmatex leaves it
# Browsers know letters of other alphabets by their own characters alone, and stretch one bar of a
# norm but not the one that has an index.
_SUPPORTED = {
    '<mi mathvariant="double-struck">R</mi>': "<mi>ℝ</mi>",
    '<mi mathvariant="double-struck">E</mi>': "<mi>𝔼</mi>",
    '<mi mathvariant="sans-serif">T</mi>': "<mi>𝖳</mi>",
    "<mo>&#x02016;</mo>": '<mo stretchy="false" lspace="0" rspace="0">‖</mo>',
    "<mi>;</mi>": "<mo>;</mo>",
}
MERMAID = "assets/mermaid.min.js"
MERMAID_PACKAGE = "https://registry.npmjs.org/mermaid/-/mermaid-11.9.0.tgz"
MERMAID_HASH = "sha256:457d14c241bf63fdca6fd6ef0463d3a15f2061496429769c01b28c9203442320"


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each example, the changelog, and Mermaid where a page draws with it."""
    pages = {f"gallery/{example.name}.md": example.page() for example in gallery.examples()}
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    if any("```mermaid" in text for text in texts):
        try:
            source = pooch.retrieve(
                MERMAID_PACKAGE,
                known_hash=MERMAID_HASH,
                processor=pooch.Untar(members=["package/dist/mermaid.min.js"]),
            )
        except OSError as cause:  # of a machine without a network that never built the site before
            logger.info("Mermaid cannot be had (%s): drawings are shown as text", cause)
            return files
        files.append(File.generated(config, MERMAID, abs_src_path=source[0]))
        config["extra_javascript"].append(MERMAID)
    return files


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Put the reference of a module's names and the table of the gallery in their places."""
    if MERMAID not in config["extra_javascript"]:
        markdown = markdown.replace("```mermaid", "```text")
    markdown = NAMES.sub(lambda found: reference(found[1], found[2] or ""), markdown)
    return markdown.replace("<!-- gallery -->", gallery.overview())


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML."""
    return FORMULA.sub(_mathml, content)


def public_names(module: str) -> list[str]:
    """What `__all__` of a package lists, or the classes and functions of a file."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    kinds = (ast.ClassDef, ast.FunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and node.name[0] != "_"]


def reference(module: str, without: str) -> str:
    """One entry of mkdocstrings for each public name of a module."""
    left_out = {name.strip() for name in without.split(",")}
    names = [name for name in public_names(module) if name not in left_out]
    return "\n\n".join(f"::: {module}.{name}{_OPTIONS.get(module, '')}" for name in names)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    text = str(convert(html.unescape(found[3]), display=display))
    for old, new in _SUPPORTED.items():
        text = text.replace(old, new)
    return text
