"""Availability tied to labels: the process of the MIFA paper."""

import torch

from impatient.availability.base import Independent
from impatient.checks import ConfigError, check, number, one_of
from impatient.messages import Population


class LabelBernoulli(Independent):
    """Independent coins whose bias grows with a label of the client's.

        code     p_i = p_min + (1 - p_min)·c_i/(C - 1)      p_min is the lower bound, as the paper says
        printed  p_i = p_min·c_i/(C - 1) + 1 - p_min        as the paper prints it: at least 1 - p_min

    C is the number of classes and c_i the smallest label that client i holds, or (label=most_frequent) the one it holds
    most of, the smaller of equals. Source: Gu et al., NeurIPS 2021, experiments section; their released generator runs
    the first formula, with the smallest label for two classes a client and the most frequent one for Dirichlet splits.
    """

    def __init__(self, pmin: float = 0.1, formula: str = "code", label: str = "smallest") -> None:
        check(
            number("pmin", pmin, 0, 1),
            one_of("formula", formula, ("code", "printed")),
            one_of("label", label, ("smallest", "most_frequent")),
        )
        self.pmin, self.formula, self.label = pmin, formula, label

    def setup(self, population: Population, seed: int) -> None:
        """Read off the labels. Raises ConfigError where there are no classes."""
        super().setup(population, seed)
        classes = population.counts.shape[1]
        if classes == 0:
            raise ConfigError("availability=label_bernoulli: this data has no classes; use availability=bernoulli")
        labels = population.counts
        counts = labels if self.label == "most_frequent" else (labels > 0).to(torch.int64)
        rise = counts.argmax(1).to(torch.float64) / max(classes - 1, 1)
        if self.formula == "code":
            self.p = self.pmin + (1 - self.pmin) * rise
        else:
            self.p = self.pmin * rise + (1 - self.pmin)
