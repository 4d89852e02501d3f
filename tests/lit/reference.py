"""Federated softmax regression in numpy, from the formulas alone: full batches, so no order of samples matters."""

from collections.abc import Sequence

import numpy as np


def softmax_gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray, weight_decay: float) -> np.ndarray:
    """∇ of mean cross-entropy + weight_decay/2·‖w‖², w [C, d + 1] with the bias in the last column, x [n, d + 1]."""
    z = x @ w.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(y) + weight_decay * w


def trajectory(
    rule: str, w: np.ndarray, xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], masks: np.ndarray, p: np.ndarray,
    lr: float, epochs: int, weight_decay: float,
) -> np.ndarray:  # fmt: skip
    """The model after len(masks) rounds of MIFA from zeros ("mifa"), biased FedAvg, or importance sampling ("is")."""
    n, updates = len(xs), 0
    table = np.zeros((n, *w.shape))
    for mask in masks:
        eta = lr / (updates + 1)
        u = np.zeros_like(table)
        for i in np.flatnonzero(mask):
            local = w.copy()
            for _ in range(epochs):  # full batch: an epoch is one step
                local -= eta * softmax_gradient(local, xs[i], ys[i], weight_decay)
            u[i] = w - local
        if rule == "mifa":
            table[mask] = u[mask] / eta
            w = w - eta * table.mean(0)
        elif mask.any():
            w = w - (u[mask].mean(0) if rule == "biased" else (u[mask] / p[mask, None, None]).sum(0) / n)
        updates += rule == "mifa" or mask.any()
    return w
