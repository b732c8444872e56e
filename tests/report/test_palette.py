import pytest

from proxlin.report.palette import DARK, LIGHT, VARIABLES
from tests.report.contrast import contrast

TEXT, LINE = 4.5, 3.0  # the ratios that WCAG AA asks for
GROUNDS = ("paper", "ground", "shade")


def test_contrast_is_that_of_wcag():
    assert contrast("#ffffff", "#000000") == 21.0
    assert contrast("#777777", "#777777") == 1.0
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)  # a well-known pair


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_every_ground(colours):
    for ground in GROUNDS:
        for name in ("ink", "muted", "link", "strong"):
            assert contrast(colours[name], colours[ground]) >= TEXT, (name, ground)
    for name in ("blue", "orange", "green", "pink", "grey"):
        assert contrast(colours[name], colours["paper"]) >= LINE, name


def test_both_themes_have_every_colour_of_a_picture():
    assert set(LIGHT) == set(DARK)
    assert set(VARIABLES.values()) <= set(LIGHT)
    for fixed, name in VARIABLES.items():
        assert name == "ink" or LIGHT[name] == fixed
