import re
from xml.etree import ElementTree

import matplotlib.image
import pytest

from proxlin.report import write_picture
from proxlin.report.drawing import page_svg, panel, plain_ticks, svg_bytes
from proxlin.report.palette import VARIABLES
from tests.report.samples import curve, image


def test_files_are_pictures_and_the_same_every_time(tmp_path):
    first, again = (write_picture(tmp_path / name, "curve", curve()) for name in ("a", "b"))
    assert [path.name for path in first] == ["curve.svg", "curve.png"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert ElementTree.parse(first[0]).getroot().tag.endswith("svg")
    assert matplotlib.image.imread(first[1]).std() > 0


@pytest.mark.parametrize("draw", [curve, image])
def test_colours_follow_the_page(draw):
    svg = page_svg(svg_bytes(draw()), "a-", "A drawing.")
    left = set(re.findall(r"#[0-9a-f]{6}\b", svg))
    assert not left & set(VARIABLES)
    assert "var(--ink)" in svg or "var(--muted)" in svg


def test_ids_belong_to_the_picture_and_every_reference_is_met():
    svg = page_svg(svg_bytes(curve()), "part-3-", "A drawing.")
    ids = re.findall(r'\bid="([^"]+)"', svg)
    used = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
    assert ids
    assert used
    assert all(name.startswith("part-3-") for name in ids)
    assert used <= set(ids)


def test_nothing_of_a_picture_reaches_the_rest_of_the_page():
    svg = page_svg(svg_bytes(curve()), "a-", '"><script>x</script>')
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == '"><script>x</script>'
    assert root.get("role") == "img"
    assert not {"style", "script", "metadata"} & {e.tag.rsplit("}")[-1] for e in root.iter()}
    assert root.get("viewBox")


@pytest.mark.parametrize(("top", "expected"), [(3.2, ["2", "4"]), (1e6, ["10", "1,000,000"])])
def test_symmetric_logarithms_have_plain_ticks(top, expected):
    figure, axes = panel()
    axes.plot([0, 1], [-1, top])
    axes.set_yscale("symlog", linthresh=7.0)
    plain_ticks(axes.xaxis, axes.yaxis)
    figure.draw_without_rendering()
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert set(expected) <= set(shown)
    assert not any("10^" in text or "times" in text for text in shown)
