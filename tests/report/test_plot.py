"""Runs as one figure: what is drawn, for one run and for several."""

import pytest
from tests.made_runs import reading

import invariance as inv
from invariance.errors import InvarianceError, SettingError


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def panel(figure, title):
    return figure.axes[titles(figure).index(title)]


def test_a_run_is_drawn_with_the_ceiling_and_the_numbers(made):
    run = inv.Run(made(metrics=[reading(k, knn=0.5) for k in range(1, 9)]))
    figure = run.plot()
    assert titles(figure)[:3] == ["Loss", "Information", "Views matched, and kNN"]
    assert "Effective sample size" in titles(figure)
    readings, _ = panel(figure, "Loss").get_lines()  # faint behind their means
    assert list(readings.get_ydata()) == [reading(k)["loss"] for k in range(1, 9)]
    information = panel(figure, "Information")
    assert "at most" in information.texts[0].get_text()
    assert information.get_ylim()[1] > reading(1)["mi_ceiling"]
    names = panel(figure, "Views matched, and kNN").get_legend().get_texts()
    assert [name.get_text() for name in names] == [
        "views matched  22.0 %",
        "kNN  50.0 %",
    ]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_several_runs_lie_over_each_other(made):
    folders = [made(name="a"), made(name="b", metrics=[reading(1), reading(2)])]
    figure = inv.plot(folders)
    assert len(panel(figure, "Loss").get_lines()) == 4  # means, and readings behind
    assert {"Alignment", "Uniformity"} < {*titles(figure)}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert titles(inv.plot(*folders)) == titles(figure)


def test_what_cannot_be_plotted_is_told(made, tmp_path):
    with pytest.raises(InvarianceError, match="nothing to plot yet: run has no"):
        inv.plot(made(metrics=[]))
    with pytest.raises(InvarianceError, match="no folder"):
        inv.plot(tmp_path / "nowhere")
    with pytest.raises(SettingError, match="the list is empty"):
        inv.plot([])
    with pytest.raises(SettingError, match="got 3"):
        inv.plot(3)
