"""`TableBasis`: which functions of the columns of a table an ensemble learns from besides the columns themselves."""

from __future__ import annotations

from typing import Any, ClassVar

from fiol.components.component import Component, require


class TableBasis(Component):
    """Curves of columns and surfaces of pairs of columns, as features of an ensemble with several levels.

    Level 1 has the features as they are, level 2 adds curves, level 3 adds surfaces. Each level is an ensemble of its
    own, and a Newton stack combines their scores, so that the whole is one linear model of all features: a generalized
    additive model with pairwise interactions (Hastie and Tibshirani 1986; Lou et al. 2013).

    - A **curve** of a column of numbers has a hat function at each of its knots. They are the quantiles of the first
      `rows` rows; of a column with at most `knots` different values there, the values. Hats are linear between knots
      and constant beyond the outermost ones, where the column itself continues linearly. Dates also have curves of
      the day of the year and of the time of day, which close.
    - A **surface** of two columns has a weight for each node of a grid: `grid` + 1 of the knots of a column, or all of
      them if these are its values; each category; and a missing value. Between nodes it is linear in triangles, so that
      a row has at most three nodes of each pair.

    Parameters
    ----------
    rows : the number of rows from which knots, bins and pairs are found. Until then there is level 1 alone; levels 2
        and 3 go on from there. Whenever there are half as many rows again, the last `rows` rows are looked at: if more
        than 5 % of them are beyond the knots of a column, it gets more knots there. In rounds over shards this happens
        between rounds, by the last rows of the shards.
    knots : the largest number of intervals between the knots of a column, and of values that are knots.
    grid : the largest number of intervals of a column in the grids of its pairs, unless knots are its values.
    max_pairs : the largest number of pairs of columns; 0 is a model of curves, without level 3. If columns have more
        pairs, those are chosen that explain most of what curves leave of the following `choice_rows` rows; level 3
        begins after these.
    refine_rows : the first time that columns are looked at after this many rows, a knot is added in the middle of each
        interval, and a point of the grid between every two of its points, but for columns whose knots are their values;
        0 for never. Curves stay as they are. Finer surfaces fit many rows better, and few rows worse.
    choice_rows : the number of rows from which pairs are chosen. If all pairs are there, and more than three for each
        column, those that explain no more than noise learn slowly after these rows.
    max_nodes : the largest number of nodes of all grids; pairs beyond that are left out, and no grid is refined beyond.
    max_columns : with more columns than this, there are neither curves nor surfaces.

    >>> TableBasis().levels, TableBasis(max_pairs=0).levels
    (3, 2)
    """

    rows: int = 200
    knots: int = 24
    grid: int = 8
    max_pairs: int = 91
    choice_rows: int = 1000
    max_nodes: int = 2**18
    max_columns: int = 1000
    refine_rows: int = 8000
    of_older_files: ClassVar[dict[str, Any]] = {"refine_rows": 0}

    def validate(self) -> None:
        require("TableBasis.rows", self.rows, 2.0, 1e6)
        require("TableBasis.knots", self.knots, 2.0, 1e4)
        require("TableBasis.grid", self.grid, 1.0, 1e4)
        require("TableBasis.max_pairs", self.max_pairs, 0.0, 1e6)
        require("TableBasis.choice_rows", self.choice_rows, 1.0, 1e6)
        require("TableBasis.max_nodes", self.max_nodes, 0.0, 1e9)
        require("TableBasis.max_columns", self.max_columns, 0.0, 1e6)
        require("TableBasis.refine_rows", self.refine_rows, 0.0, 1e15)

    @property
    def levels(self) -> int:
        """The number of levels."""
        return 3 if self.max_pairs else 2
