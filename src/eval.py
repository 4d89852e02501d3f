"""A checkpoint → the same metrics as in training. python src/eval.py logs/runs/<folder>"""

import sys

import hydra
from omegaconf import DictConfig

from impatient.app import cli


@hydra.main(version_base="1.3", config_path="../configs", config_name="eval")
def main(cfg: DictConfig) -> None:
    """Evaluate and print."""
    from impatient.app.run import evaluate

    evaluate(cfg)


if __name__ == "__main__":
    paths, rest = cli.split_paths(sys.argv[1:])
    if len(paths) > 1:
        sys.exit(f"{paths[1]}: one run at a time, by its folder or by one checkpoint")
    named = [f"{'ckpt_path' if path.endswith('.ckpt') else 'run'}={cli.quoted(path)}" for path in paths]
    cli.enter(main, [*named, *rest])
