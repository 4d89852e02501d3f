"""No dependency at a release known to be malicious or vulnerable: .ci/advisories.txt against what is pinned and asked.

python .ci/advisories.py        exit status 1 and a line for each release at fault
"""

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).parent
Advisories = list[tuple[str, SpecifierSet, str]]


def read(text: str) -> Advisories:
    """Lines of `name affected-versions  # id: what`."""
    lines = [line.partition("#") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    split = [(Requirement(left.replace(" ", "", 1)), right.strip()) for left, _, right in lines]
    return [(canonicalize_name(asked.name), asked.specifier, what) for asked, what in split]


def releases_at_fault(releases: dict[str, str], advisories: Advisories) -> list[str]:
    """Name and version: those that an advisory names."""
    return [
        f"{name}=={releases[name]}: {what} (affected: {affected})"
        for name, affected, what in advisories
        if name in releases and affected.contains(releases[name], prereleases=True)
    ]


def requirements_at_fault(requirements: list[Requirement], advisories: Advisories) -> list[str]:
    """Requirements that admit a release which an advisory names, tried at the bounds of both."""
    faults = []
    for asked in requirements:
        for name, affected, what in advisories:
            if canonicalize_name(asked.name) != name:
                continue
            bounds = {Version(s.version.removesuffix(".*")) for part in (asked.specifier, affected) for s in part}
            if any(asked.specifier.contains(v) and affected.contains(v) for v in bounds):
                faults.append(f"{asked}: admits {name} {affected}: {what}; raise the floor")
    return faults


def main() -> int:
    """The pins, the environment at hand, and the requirements that a user's pip resolves."""
    advisories = read((HERE / "advisories.txt").read_text())
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (HERE.parent / "constraints.txt").read_text(), re.MULTILINE))
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    here = {canonicalize_name(d.metadata["Name"]): d.version for d in distributions()}
    pyproject = tomllib.loads((HERE.parent / "pyproject.toml").read_text())
    project = pyproject["project"]
    asked = [*project["dependencies"], *(r for group in project["optional-dependencies"].values() for r in group)]
    asked += pyproject["build-system"]["requires"]
    faults = [
        *releases_at_fault(pins, advisories),
        *releases_at_fault({name: version for name, version in here.items() if name in pins}, advisories),
        *requirements_at_fault([Requirement(text) for text in asked], advisories),
    ]
    print(*dict.fromkeys(faults), sep="\n", end="\n" * bool(faults), file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
