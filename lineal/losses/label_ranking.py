"""Label ranking, ℓ(Y, z) = Σ_{r ∈ Y, q ∉ Y} max(1 − (z_r − z_q), 0)²: every label above every non-label.

The multi-label extension (section 4.7) of the multi-class squared hinge; the same with one label a row.
"""

from __future__ import annotations

from typing import ClassVar

from lineal.core.protocol import Fieldless, protocol
from lineal.losses.pairs import PairLoss


@protocol
class LabelRanking(PairLoss, Fieldless):
    """Several pair variables give the same u, so there is no cheap conjugate: dual values come from the pairs."""

    __slots__ = ()
    name: ClassVar[str] = "label_ranking"
    takes_label_sets: ClassVar[bool] = True
    has_conjugate: ClassVar[bool] = False


LOSS = LabelRanking()
