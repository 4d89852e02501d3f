"""Laws of availability processes that rest on chance: what they call broken is true with a chance below `RARE`."""

import math

import torch
from torch import Tensor

from impatient.availability.base import Availability
from impatient.contract.failing import require
from impatient.contract.process_trial import ROUNDS, ProcessTrial

RARE = 1e-9
SEEDS = 1000


def another_seed_gives_other_masks(trial: ProcessTrial) -> str | None:
    """seed: another seed gives other masks, where chance decides."""
    rounds, process = trial.rounds(ROUNDS), trial.process()
    prob = _chances(process, rounds)
    if prob is None:
        return "prob is not known: it may be that nothing is left to chance"
    surest = float(torch.maximum(prob, 1 - prob).min())
    # A client with this chance is the same as under seed 0 with at most this chance, for each of the other seeds.
    if surest**SEEDS > RARE:
        return "every chance is 0 or 1, or all but that"
    masks = _masks(process, rounds)
    same = (torch.equal(_masks(other, rounds), masks) for other in trial.seeds(SEEDS + 1))
    require(not all(same), "every seed gives the same masks; draw with coins, or rng.stream(self.seed, …, round)")
    return None


def devices_come_as_often_as_prob_says(trial: ProcessTrial) -> str | None:
    """prob: devices are there as often as prob says, in round 0 as later; stationary is prob in every round."""
    rounds, n = trial.rounds(ROUNDS // 2), trial.num_clients
    more, variance = torch.zeros(2, n, dtype=torch.float64), torch.zeros(2, n, dtype=torch.float64)
    seen = set()
    for process in trial.seeds(SEEDS):
        prob, there = _chances(process, rounds), _masks(process, rounds)
        if prob is None:
            return "prob is not known"
        _what_is_certain(process, prob, there)
        off, spread = there.double() - prob, prob * (1 - prob)
        more += torch.stack([off[0], off.mean(0)])
        variance += torch.stack([spread[0], spread.mean(0) * _alike(process, rounds) / rounds])
        seen.add(there.numpy().tobytes())
    if len(seen) == 1 and variance.any():
        return "every seed gives the same masks"  # another law says so
    most = tolerance(variance)
    for when, gap, bound in zip(("round 0", f"{rounds} rounds"), more / SEEDS, most / SEEDS, strict=True):
        i = int((gap.abs() - bound).argmax())
        why = f"{when}, {SEEDS} seeds: client {i} is there {'more' if gap[i] > 0 else 'less'} often than prob says"
        require(gap[i].abs() <= bound[i], f"{why}, by {gap[i].abs():.3f}; chance explains {bound[i]:.3f}")
    return None


def tolerance(variance: Tensor) -> Tensor:
    """How far Σ_s Y_s may be from 0, for a variance [..., N] summed over the seeds s.

    Y_s is the mean over T rounds of (mask - prob) of one client. Whatever the rounds have to do with each other, seeds
    are independent, E Y_s = 0 and |Y_s| ≤ 1, so by Bernstein  P(|Σ Y_s| ≥ x) ≤ 2 exp(-x²/(2V + 2x/3)). x makes that
    RARE divided by the number of sums. For p = ½, 10 clients and 20 rounds it is 3 % of the seeds if no round tells of
    the next, and 12 % if nothing is known of that.
    """
    level = math.log(2 * variance.numel() / RARE)
    return level / 3 + (level**2 / 9 + 2 * variance * level).sqrt()


def _alike(process: Availability, rounds: int) -> Tensor:
    """c [N] with Var(Σ_t mask) ≤ c·Σ_t p(1-p): at most T, for rounds that are all the same.

    Where the process tells its correlation λ, that of rounds t and u is at most λ^|t-u|, and a row of this matrix adds
    up to (1+λ)/(1-λ) at most.
    """
    correlation = process.knows(0).get("correlation")
    if correlation is None:
        return torch.tensor(float(rounds))
    return ((1 + correlation.abs()) / (1 - correlation.abs())).clamp(max=rounds)


def _what_is_certain(process: Availability, prob: Tensor, there: Tensor) -> None:
    require(not there[prob == 0].any(), "a device is there in a round for which prob says 0")
    require(there[prob == 1].all(), "a device is away in a round for which prob says 1")
    fixed = process.stationary()
    require(fixed is None or (prob == fixed).all(), "stationary is not what prob says in every round")


def _chances(process: Availability, rounds: int) -> Tensor | None:
    """prob, float64 [T, N]."""
    prob = [process.prob(t) for t in range(rounds)]
    known = [p for p in prob if p is not None]
    return torch.stack(known) if len(known) == rounds else None


def _masks(process: Availability, rounds: int) -> Tensor:
    """bool [T, N]."""
    return torch.stack([process.mask(t) for t in range(rounds)])
