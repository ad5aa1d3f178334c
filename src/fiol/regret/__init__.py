"""Regret: what a learner paid beyond the best fixed weights, how much exact steps saved, and what theory allows."""

from fiol.regret.auditing import Audit, audit
from fiol.regret.comparator import Comparator, best_in_hindsight
from fiol.regret.ledger import Ledger
from fiol.regret.records import Records

__all__ = ["Audit", "Comparator", "Ledger", "Records", "audit", "best_in_hindsight"]
