"""What the adaptive server optimizers of one paper share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from impatient.checks import check, number


class FedOpt(torch.optim.Optimizer):
    """With D the rule's direction, a model's pseudo-gradient:

        m ← β1·m + (1 - β1)·D
        v ← second(v, D²)
        w ← w - lr·m/(√v + eps)          m = 0, v = eps² before the first step; no bias correction

    eps is the paper's τ. A parameter without a gradient is left as it is, and so are its m and v: a held round changes
    nothing. Source: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
    """  # fmt: skip

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-3,
    ) -> None:
        check(
            number("lr", lr, 0, open_low=True),
            number("betas[0]", betas[0], 0, 1),
            number("betas[1]", betas[1], 0, 1),
            number("eps", eps, 0, open_low=True),
        )
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps})

    @abstractmethod
    def second(self, v: Tensor, square: Tensor, beta: float) -> Tensor:
        """The next v, from D² and β2."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step against the gradients; what the closure gives, if there is one."""
        given = None
        if closure is not None:
            with torch.enable_grad():
                given = closure()
        for group in self.param_groups:
            (beta1, beta2), eps = group["betas"], group["eps"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.full_like(p, eps**2)
                state["m"] = beta1 * state["m"] + (1 - beta1) * p.grad
                state["v"] = self.second(state["v"], p.grad.square(), beta2)
                p.sub_(state["m"] / (state["v"].sqrt() + eps), alpha=group["lr"])
        return given
