"""Regret: the loss beyond that of the best fixed weights, the gain of exact steps, and theoretical bounds."""

from fiol.regret.auditing import Audit, audit
from fiol.regret.comparator import Comparator, best_in_hindsight
from fiol.regret.ensemble_bounds import EnsembleRecords
from fiol.regret.ensemble_ledger import EnsembleLedger
from fiol.regret.ledger import Ledger
from fiol.regret.records import Records
from fiol.regret.stacking import StackAudit, audit_stack

__all__ = [
    "Audit",
    "Comparator",
    "EnsembleLedger",
    "EnsembleRecords",
    "Ledger",
    "Records",
    "StackAudit",
    "audit",
    "audit_stack",
    "best_in_hindsight",
]
