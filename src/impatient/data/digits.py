"""Handwritten digits that ship inside scikit-learn: real images, no network."""

import numpy as np
import torch

from impatient.data.dataset import Dataset, Source

# Mean and standard deviation of x/255 over all pixels of the 1347 training images delivered below.
MEAN, STD = 0.3052753395344775, 0.3758436739167523


class Digits(Source):
    """1797 grey images of 8x8 pixels (Alpaydin and Kaynak, UCI 1998), split once and for all: 1347 train, 450 test.

    x: uint8 [n, 1, 8, 8]; the file's values 0..16 are scaled to 0..255. The split is stratified, free of any seed.
    """

    num_classes = 10
    num_train = 1347

    def load(self, num_clients: int, seed: int) -> Dataset:
        """Both arguments are ignored."""
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        x = np.round(x * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8)
        parts = train_test_split(x, y.astype(np.int64), test_size=450, stratify=y, random_state=0)
        x, x_test, y, y_test = (torch.from_numpy(np.ascontiguousarray(part)) for part in parts)
        return Dataset("digits", x, y, x_test, y_test, classes=tuple("0123456789"), mean=(MEAN,), std=(STD,))
