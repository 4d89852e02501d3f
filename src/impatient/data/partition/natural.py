"""The owners that the data set itself names."""

import numpy as np

from impatient.checks import ConfigError
from impatient.data.partition.base import Partition


class Natural(Partition):
    """As the source gives it: whoever splits takes `dataset.owners` where there are any, and asks here only if not."""

    natural = True

    def check(self, num_clients: int, num_classes: int | None, num_train: int | None) -> list[str]:
        """None: only loading tells who owns what."""
        return []

    def split(self, labels: np.ndarray, num_classes: int, num_clients: int, seed: int) -> list[np.ndarray]:
        """Raises ConfigError: there is nothing to go by."""
        raise ConfigError(
            "partition=none: this data set has no natural owners; use partition=two_class, iid or dirichlet"
        )
