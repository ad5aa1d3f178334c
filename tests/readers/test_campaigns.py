"""Short versions of campaigns: see lines.py, cells.py and tables.py in tests/campaigns."""

from campaigns import cells, lines, tables


def test_mutated_lines_match_slow_parser_or_are_rejected():
    found = lines.run(3000, seed=1)
    assert found["svmlight", "read"] > 250
    assert found["svmlight", "refused"] > 250
    assert found["vw", "read"] > 250
    assert found["vw", "refused"] > 150


def test_mutated_cells_match_fallback_and_slow_loop(monkeypatch):
    before = cells.compiled_parser.COMPILED_MIN_BYTES
    monkeypatch.setattr(cells.compiled_parser, "COMPILED_MIN_BYTES", before)  # put back at the end
    found = cells.run(2000, seed=3)
    for form in ("csv", "json"):
        assert found[form, "read"] > 50
        assert found[form, "refused"] > 10
        assert found[form, "compared with the slow loop"] > 5


def test_made_up_tables_give_same_model_and_scores_by_every_way():
    found = tables.run(16, seed=9)
    assert found["tables"] - found["refused"] > 12
