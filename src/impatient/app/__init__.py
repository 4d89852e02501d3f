"""From a command line, or from a notebook, to a run: `compose` settings, make a `Run` of them, or `fit` one.

>>> from impatient.app import compose, fit
>>> run = fit(compose("algo=mifa", "rounds=20", "logger=csv"))  # doctest: +SKIP
>>> run.module.model, run.data.clients, run.summary["test/acc"]  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from impatient.app.config import Settings, compose

if TYPE_CHECKING:
    from impatient.app.run import Run, fit

__all__ = ["Run", "Settings", "compose", "fit"]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for: `train.py --help` does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"impatient.app has no {name}; it has {', '.join(__all__)}")
    from impatient.app import run

    return getattr(run, name)
