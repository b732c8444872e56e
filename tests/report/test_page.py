import re
from html.parser import HTMLParser

import pytest

from proxlin.errors import InvalidInputError
from proxlin.report import Picture, Report, Section, Text, write_report
from tests.report.samples import EVIL, curve, everything

VOID = {"meta", "link", "br", "img", "input"}


class Reader(HTMLParser):
    """Elements with their attributes; refuses tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the report with everything lies, and its pictures."""
    folder = tmp_path_factory.mktemp("report")
    write_report(everything(), folder / "report.html", pictures=folder / "pictures", prefix="a-")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return Reader((folder / "report.html").read_text())


def test_the_page_names_its_language_title_and_size(page):
    assert page.all("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    assert f"A report on {EVIL}" in page.words
    assert len(page.all("h1")) == len(page.all("title")) == 1


def test_text_is_never_markup(page):
    assert len(page.all("script")) == 1
    assert page.all("b") == [{}] * 3  # the tiles
    assert "A second one with <b>no</b> markup in it." in page.words
    assert page.words.count(EVIL) >= 3


def test_nothing_is_loaded(page):
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:|\*|'unsafe-eval'|script-src 'unsafe", policy)
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "object", "embed", "form"}
        assert "src" not in attributes
        for key in ("href", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:")), (tag, attributes)
        assert not any(key.startswith("on") for key in attributes)


def test_ids_are_unique_and_links_lead_somewhere(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        assert link["href"].removeprefix("#") in ids
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", ids[0]) in ids


def test_pictures_have_words(page):
    labels = [svg.get("aria-label") for svg in page.all("svg")]
    assert labels == ["Two falling curves.", *["Three drawings."] * 3, EVIL]
    assert len(page.all("figcaption")) == 3 + 3


def test_the_file_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    report = Report("One", "A lead.", [Section("A", [Text("x")])])
    assert write_report(report, path) == path
    before = path.read_bytes()
    monkeypatch.setattr("proxlin.run.storage.os.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(Report("Two", "A lead.", []), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_same_report_gives_the_same_bytes(folder, tmp_path):
    again = write_report(everything(), tmp_path / "again.html")
    assert again.read_bytes() == (folder / "report.html").read_bytes()


def test_every_drawing_is_a_file_too(folder):
    names = [f"a-pictures-{number}.{ending}" for number in range(1, 6) for ending in ("png", "svg")]
    assert sorted(path.name for path in (folder / "pictures").iterdir()) == names


@pytest.mark.parametrize(
    "make",
    [
        lambda: Report("", "lead", []),
        lambda: Report("title", " ", []),
        lambda: Section("", []),
        lambda: Picture(curve(), "", "alt"),
        lambda: Picture(curve(), "caption", ""),
        lambda: Picture((), "caption", "alt"),
    ],
)
def test_what_a_reader_would_miss_is_refused(make):
    with pytest.raises(InvalidInputError, match="must be"):
        make()
