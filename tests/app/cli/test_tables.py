from proxlin.app.cli.tables import show_table
from proxlin.report import Figures, Table


def test_a_table_shows_every_field_and_remark_as_it_is(capsys):
    rows = [
        ("[red]l1[/red]", Figures(("0.25", "7"), (True, False)), 1797),
        ("a\x1b[31mb", float("nan"), -1),
    ]
    show_table(Table("[b]Errors[/b]", ("loss", "error", "rows"), rows, ("At [5] %.",)))
    told = capsys.readouterr().out
    assert "[b]Errors[/b]" in told
    assert "[red]l1[/red]" in told
    assert "0.25 / 7" in told
    assert "1,797" in told
    assert "At [5] %." in told
    assert "\x1b[31mb" not in told
