"""Several updates that learn from the same rows, and the stack that makes one model of them."""

from __future__ import annotations

from fiol.algorithms.update import Update
from fiol.components.combiners import NewtonStack, Stack
from fiol.components.component import Component
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.joint_losses import AnyLoss
from fiol.components.subproblem import expect
from fiol.components.table_basis import TableBasis


class Ensemble(Component):
    """Members that learn side by side, each as if it were alone, and one score made of theirs.

    Before every round the K members have scores z_1 ... z_K for the row. The stack predicts z = v_1 z_1 + ... +
    v_K z_K, and then learns from the target which v to take (see `NewtonStack`). Since a member's score is
    <x, w_k>, that is the score of one linear model, with weights v_1 w_1 + ... + v_K w_K: those are the weights of a
    learner that has an ensemble for its update, and what it predicts with. (With `Bayes` for a stack, and a loss that
    is minus the logarithm of a probability, the mean of probabilities takes the place of that, and there are no weights
    but those of each member.)

    A `gate` is one more member, with a penalty that leaves zeros. It learns from the rows as they are, and decides what
    the others see of a row: the entries whose features have a weight with the gate before the row. So the others
    need no penalty to be sparse, their weights are not shrunk, and the weights of the ensemble are

        w_i = v_1 w_1i + ... + v_K w_Ki + v_gate w_gate,i    where w_gate,i is not exactly 0, and 0 elsewhere

    (an online relaxed lasso). What a member has learned of a feature that loses its weight with the gate stays as it
    is, and counts again from where the feature comes back. With a score per class, a feature has a weight if it has one
    for any class. Scores never depend on the target of their own row.

    With a `basis`, there are curves of columns and cells of pairs of columns besides the features as they are: see
    `TableBasis`. Then each of two or three levels has these members, and a second stack combines the levels.

    An exact step survives any step size. So members may have absurdly short and absurdly long steps, and steps of
    different kinds; which of them suit the rows need not be known. All members have the same loss.

    >>> from fiol import FIOL, AdaGrad, Constant, Learner, Logistic, ScaleFree
    >>> sizes = [ScaleFree(Constant(10.0)), ScaleFree(AdaGrad(1.0)), ScaleFree(AdaGrad(30.0))]
    >>> learner = Learner(Ensemble([FIOL(Logistic(), step_size=size) for size in sizes]))
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1]).shape, learner.weights.shape
    ((3,), (2,))
    >>> from fiol import L1, ImplicitFTRL
    >>> gate = ImplicitFTRL(Logistic(), L1(0.1), sizes[1])
    >>> sparse = Learner(Ensemble([FIOL(Logistic(), step_size=size) for size in sizes], gate=gate))
    >>> _ = sparse.learn([[1.0, 0.1], [-1.0, 0.1]] * 20, [1, -1] * 20)
    >>> sparse.n_nonzero, len(sparse.members)  # the gate is the last one
    (1, 4)
    """

    members: tuple[Update, ...]
    stack: Stack = NewtonStack()
    gate: Update | None = None
    basis: TableBasis | None = None

    def validate(self) -> None:
        named = [(f"Ensemble.members[{k}]", member) for k, member in enumerate(self.members)]
        for name, member in [*named, *([] if self.gate is None else [("Ensemble.gate", self.gate)])]:
            expect(name, member, Update)
            if member.loss != self.members[0].loss:
                raise ValueError(
                    f"{name} has {member.loss!r} for its loss, members[0] has {self.members[0].loss!r}: "
                    "an ensemble has one"
                )
            if not member.geometry.reparametrization().is_identity:
                kind = type(member.geometry).__name__
                raise TypeError(f"{name}: {kind} has weights of another kind than rows have features")
        if self.gate is not None and not self.gate.leaves_zeros():
            raise TypeError(
                f"Ensemble.gate leaves no weight at exactly 0, so that everything passes: {self.gate.brief()}"
            )
        expect("Ensemble.stack", self.stack, Stack)
        if self.basis is not None:
            expect("Ensemble.basis", self.basis, TableBasis)
            if not self.is_linear():
                raise TypeError(f"Ensemble.basis needs a linear stack, such as NewtonStack(), got {self.stack!r}")

    @property
    def updates(self) -> tuple[Update, ...]:
        """All that learn: the members, and last the gate, if there is one."""
        return self.members if self.gate is None else (*self.members, self.gate)

    @property
    def loss(self) -> AnyLoss:
        """The loss of every member."""
        return self.members[0].loss

    @property
    def geometry(self) -> Geometry:
        """How rows come in: as they are."""
        return Euclidean()

    def brief(self) -> str:
        """Return a short text: the number of members, their loss, and the gate."""
        behind = "" if self.gate is None else f" behind a gate with {self.gate.regularizer!r}"
        levels = "" if self.basis is None else ", curves" if self.basis.levels == 2 else ", curves and pairs"
        return f"Ensemble of {len(self.members)} with {self.loss!r}{behind}{levels}"

    def statistics(self) -> tuple[str, ...]:
        """Return the names of the numbers kept per feature, each after the number of its member and a slash."""
        return tuple(f"{k}/{name}" for k, member in enumerate(self.updates) for name in member.statistics())

    def has_variance(self) -> bool:
        """Return whether variances of scores are known: those of members, and those of the stack's weights."""
        return self.stack.variance_known_with([member.has_variance() for member in self.members])

    def starts_anywhere(self) -> bool:
        """Return whether learning can begin from given weights."""
        return all(member.starts_anywhere() for member in self.updates)

    def centers_features(self) -> bool:
        """Return whether features far from 0 are learned as if their mean were 0, by all members."""
        return all(member.centers_features() for member in self.members)

    def is_symmetric(self) -> bool:
        """Return whether learning from targets times -1 gives weights times -1."""
        return all(member.is_symmetric() for member in self.updates)

    def is_linear(self) -> bool:
        """Return whether the score is <x, w> plus an intercept, for some weights."""
        return self.stack.linear_for(self.loss)

    def is_implicit(self) -> bool:
        """Return whether no member linearizes the loss."""
        return all(member.is_implicit() for member in self.updates)
