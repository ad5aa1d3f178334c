"""Curves and heat maps of effects: on the report page, and as figures of matplotlib."""

import numpy as np
import pytest
from tests.interpreted import interpret
from tests.test_levels import new, table

from fiol.learner.effect_plots import draw_column, draw_pair
from fiol.learner.effects import ColumnEffect, Effects, PairEffect
from fiol.reports.effect_cards import effect_cards, heat_map


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def test_cards_show_curves_categories_and_pairs():
    frame, y = table(500)
    learner = new()
    learner.learn(frame, y)
    cards = list(effect_cards(learner, "units", None))
    text = "".join(card.html() for card in cards)
    assert 'class="band"' in text
    assert "<rect" in text
    assert any("city" in card.title for card in cards)
    assert any(" and " in card.title and "together" in card.title for card in cards)


def test_models_without_curves_have_no_cards():
    learner = new(features="linear")
    learner.learn(*table(300))
    assert list(effect_cards(learner, "units", None)) == []
    with pytest.raises(TypeError, match="only a model with curves has effects"):
        learner.plot_effects()


def test_plot_effects_draws_an_axis_per_effect():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    frame, y = table(500)
    learner = new()
    learner.learn(frame, y)
    figure = learner.plot_effects(columns=3, pairs=1)
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert len(titles) == 4
    assert " & " in titles[-1]
    young = new()
    young.learn(frame[:10], y[:10])
    with pytest.raises(ValueError, match="knots are found from the first 200 rows, and there are 10"):
        young.plot_effects()


def test_plot_effects_shows_dollars_in_names_as_they_are():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    frame, y = table(500)
    frame["city"] = frame["city"].map({"A": "$5 to $10", "B": r"$\foo$", "C": "=", "D": "~a"})
    learner = new()
    learner.learn(frame.rename(columns={"city": r"$\bar$", "a": "$a_ to $b"}), y)
    figure = learner.plot_effects(columns=6, pairs=3)
    figure.canvas.draw()
    drawn = {text.get_text() for ax in figure.axes for text in (*ax.get_xticklabels(), *ax.get_yticklabels(), ax.title)}
    assert {r"\$5 to \$10", r"\$\foo\$", "=", "~a", r"\$\bar\$", r"\$a_ to \$b"} <= drawn


def pair_of_size(size):
    values = size * np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    return PairEffect("a", "b", ["a~0", "a~1"], ["b~0", "b~1"], values, np.full((2, 2), 0.25))


def test_neighboring_knots_of_a_pair_have_different_labels():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    prices = [f"price~{knot:.12g}" for knot in (123456.25, 123457.5, 123461.75)]
    pair = PairEffect("price", "b", prices, ["b~0", "b~1"], np.ones((1, 3, 2)), np.full((3, 2), 1.0 / 6.0))
    figure, ax = pyplot.subplots()
    draw_pair(figure, ax, pair, 0, 1.0)
    labels = ["123456", "123458", "123462"]
    assert [text.get_text() for text in ax.get_xticklabels()] == labels
    pyplot.close(figure)
    page = heat_map(pair, "prices")
    assert all(f">{label}<" in page for label in labels)


def test_weak_pairs_are_not_drawn_beside_strong_effects():
    strong, weak = pair_of_size(1.0), pair_of_size(0.04)
    column = ColumnEffect("a", np.arange(2.0), True, np.array([[-3.0, 3.0]]), np.full(2, 0.5), np.zeros(2))
    assert Effects([], [strong, weak]).shown_pairs(5) == [strong]
    assert Effects([column], [strong, weak]).shown_pairs(5) == [strong]
    assert Effects([column], [weak]).shown_pairs(5) == []
    assert Effects([], []).shown_pairs(5) == []


def test_pairs_of_a_figure_share_their_colors_and_many_categories_have_few_labels():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3)
    for ax, size in zip(axes, (1.0, 0.1), strict=False):
        draw_pair(figure, ax, pair_of_size(size), 0, 1.0)
        assert ax.images[0].get_clim() == (-1.0, 1.0)
    hours = [f"{hour}" for hour in range(24)]
    draw_column(
        axes[2], ColumnEffect("when.hour", hours, False, np.ones((1, 24)), np.full(24, 1 / 24), np.zeros(24)), 0
    )
    assert [label.get_text() for label in axes[2].get_xticklabels()] == hours[::2]
    assert len(axes[2].patches) == 24
    pyplot.close(figure)


def test_labels_of_categories_that_look_like_numbers_are_not_rounded():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots()
    codes = ["02134", "123456", "123457", "nan"]
    draw_column(ax, ColumnEffect("zip", codes, False, np.ones((1, 4)), np.full(4, 0.25), np.zeros(4)), 0)
    assert [label.get_text() for label in ax.get_xticklabels()] == codes
    pyplot.close(figure)
