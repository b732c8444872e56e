"""The site as it is built: links lead somewhere, the reference has no gaps, nothing is far away."""

from __future__ import annotations

import importlib
import re
import zlib
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.conftest import ROOT

Files = pytest.importorskip("mkdocs.structure.files", reason="the docs extra is missing").Files
load_config = importlib.import_module("mkdocs.config").load_config

pytestmark = pytest.mark.slow

PACKAGES = (
    "",
    ".app.tabular",
    ".data",
    ".errors",
    ".estimators",
    ".exact.linear",
    ".models",
    ".optim",
    ".prox",
    ".report",
    ".terms",
)


class Page(HTMLParser):
    """What a page links to, loads and can be linked at."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "link", "source") and found.get("rel") != "canonical":
            self.loads += [found[key] for key in ("src", "href") if found.get(key)]


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def target_of(site, page, link):
    """The file that a link of a page leads to."""
    path = unquote(urlsplit(link).path).removeprefix("/proxlin")  # where the site is published
    start = site / path.lstrip("/") if path.startswith("/") else page.parent / path
    target = page if not path else start.resolve()
    return target / "index.html" if target.is_dir() else target


def test_every_link_leads_to_a_page_and_a_place_in_it(site, pages):
    dead = []
    for page, content in pages.items():
        for link in content.links:
            if urlsplit(link).scheme:
                continue
            target = target_of(site, page, link)
            place = urlsplit(link).fragment
            known = pages[target].anchors if target in pages else {place}
            if not target.exists() or (place and unquote(place) not in known):
                dead.append((str(page.relative_to(site)), link))
    assert dead == []


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for page, content in pages.items():
        for link in content.loads:
            if link.startswith("data:") or page.name == "404.html":
                continue
            assert not urlsplit(link).netloc, (page.name, link)
            assert target_of(site, page, link).exists(), (page.name, link)


@pytest.fixture(scope="module")
def listed(site):
    """The names that the reference explains."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}


def test_every_name_that_a_page_imports_is_in_the_reference(listed):
    missing = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for module, names in re.findall(r"from (proxlin[\w.]*) import ([\w, ]+)", text):
            imported = [name.split(" as ")[0].strip() for name in names.split(",")]
            wanted = {f"{module}.{name}" for name in imported if name}
            known = {f"{module}.{name}" for name in imported if f"proxlin.{name}" in listed}
            missing |= {(page.name, name) for name in wanted - listed - known}
    assert missing == set()


def test_every_public_name_is_in_the_reference(listed):
    missing = []
    for package in PACKAGES:
        module = importlib.import_module(f"proxlin{package}")
        names = getattr(module, "__all__", None) or [
            name for name, thing in vars(module).items() if isinstance(thing, type)
        ]
        missing += [
            f"proxlin{package}.{name}"
            for name in names
            if f"proxlin{package}.{name}" not in listed and f"proxlin.{name}" not in listed
        ]
    assert missing == []


def test_formulas_are_drawn_without_a_script(site, pages):
    theory = (site / "theory" / "index.html").read_text(encoding="utf-8")
    assert theory.count("<math") > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert 'class="arithmatex"' not in text, page
        formulas = re.findall(r"<math.*?</math>", text, re.DOTALL)
        assert not [formula for formula in formulas if "\\" in formula], page
        assert not [formula for formula in formulas if "mathvariant" in formula], page  # not drawn


def test_drawings_are_text_where_mermaid_cannot_be_had(monkeypatch):
    """Without a network, on a machine that never had one, the site is still built."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    hooks = importlib.import_module("hooks")

    def unreachable(*_arguments, **_options):
        raise ConnectionError

    monkeypatch.setattr(hooks.pooch, "retrieve", unreachable)
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins._current_plugin = "hooks"
    files = hooks.on_files(Files([]), config)
    assert not any("mermaid" in file.src_uri for file in files)
    assert hooks.on_page_markdown("```mermaid\na\n```", config=config) == "```text\na\n```"
