"""FedYogi."""

from torch import Tensor

from impatient.server.base import FedOpt


class FedYogi(FedOpt):
    """v ← v - (1 - β2)·D²·sign(v - D²): v grows and shrinks by at most (1 - β2)·D², so it forgets slowly.

    Source: Reddi et al., ICLR 2021, Algorithm 2, after Yogi of Zaheer et al., NeurIPS 2018.
    """

    def second(self, v: Tensor, square: Tensor, beta: float) -> Tensor:
        """Towards D²."""
        return v - (1 - beta) * square * (v - square).sign()
