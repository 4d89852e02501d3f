"""Availability tied to labels: the process of the MIFA paper."""

import torch
from torch import Tensor

from impatient.availability.base import Independent
from impatient.checks import ConfigError, check, number, one_of


class LabelBernoulli(Independent):
    """Independent coins whose bias grows with the smallest label a client holds.

        code     p_i = p_min + (1 - p_min)·min_i/(C - 1)      p_min is the lower bound, as the paper says
        printed  p_i = p_min·min_i/(C - 1) + 1 - p_min        as the paper prints it: at least 1 - p_min

    min_i is the smallest label of client i, C the number of classes. Source: Gu et al., NeurIPS 2021, experiments
    section; their released generator runs the first formula.
    """

    def __init__(self, pmin: float = 0.1, formula: str = "code") -> None:
        check(number("pmin", pmin, 0, 1), one_of("formula", formula, ("code", "printed")))
        self.pmin, self.formula = pmin, formula

    def setup(self, labels: Tensor, seed: int) -> None:
        """Read off the smallest labels. Raises ConfigError where there are no classes."""
        super().setup(labels, seed)
        classes = labels.shape[1]
        if classes == 0:
            raise ConfigError("availability=label_bernoulli: this data has no classes; use availability=bernoulli")
        smallest = (labels > 0).to(torch.int64).argmax(1).to(torch.float64)
        rise = smallest / max(classes - 1, 1)
        if self.formula == "code":
            self.p = self.pmin + (1 - self.pmin) * rise
        else:
            self.p = self.pmin * rise + (1 - self.pmin)
