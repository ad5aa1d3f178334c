"""Curves and heat maps of effects: on the report page, and as figures of matplotlib."""

import pytest
from tests.interpreted import interpret
from tests.test_levels import new, table

from fiol.reports.effect_cards import effect_cards


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
