"""A short version of the campaign of mutated lines: see tests/campaigns/lines.py."""

from campaigns import lines


def test_mutated_lines_are_read_as_a_slow_parser_does_or_refused():
    found = lines.run(6000, seed=1)
    assert found["svmlight", "read"] > 500
    assert found["svmlight", "refused"] > 500
    assert found["vw", "read"] > 500
    assert found["vw", "refused"] > 300
