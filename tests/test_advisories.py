"""Releases known to be bad are found among pins and behind requirements."""

import importlib.util
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PATH = Path(__file__).parents[1] / ".ci/advisories.py"
spec = importlib.util.spec_from_file_location("advisories", PATH)
assert spec
assert spec.loader
advisories = importlib.util.module_from_spec(spec)
spec.loader.exec_module(advisories)

KNOWN = advisories.read(
    "# a comment\n\n"
    "Some_Lib ==2.6.2  # GHSA-1: malicious\n"
    "some-lib >=1.0,<1.5  # CVE-2: overflow\n"
    "other <3  # CVE-3: bad\n"
)


def test_the_file_is_read() -> None:
    assert [(name, str(affected), what) for name, affected, what in KNOWN] == [
        ("some-lib", "==2.6.2", "GHSA-1: malicious"),
        ("some-lib", "<1.5,>=1.0", "CVE-2: overflow"),
        ("other", "<3", "CVE-3: bad"),
    ]


@pytest.mark.parametrize(
    ("version", "found"),
    [("2.6.2", 1), ("2.6.3", 0), ("1.0", 1), ("1.4.9", 1), ("1.5", 0), ("0.9", 0), ("1.5rc1", 0), ("1.2.dev3", 1)],
)
def test_releases(version: str, found: int) -> None:
    faults = advisories.releases_at_fault({"some-lib": version, "third": "1.2"}, KNOWN)
    assert len(faults) == found
    assert all(fault.startswith(f"some-lib=={version}: ") for fault in faults)


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ("some-lib", 2),
        ("some-lib>=1.2", 2),  # 1.2 itself, and 2.6.2
        ("some-lib>=1.5", 1),
        ("some-lib>=2.6.3", 0),
        ("some-lib>=1.5,!=2.6.2", 0),
        ("Some.Lib>=1.5,<2.6", 0),
        ("some-lib==1.*", 1),
        ("other>=3", 0),
        ("other>=2", 1),
        ("third", 0),
    ],
)
def test_requirements(requirement: str, found: int) -> None:
    assert len(advisories.requirements_at_fault([Requirement(requirement)], KNOWN)) == found


def test_every_line_names_what_is_pinned_and_why() -> None:
    known = advisories.read((PATH.parent / "advisories.txt").read_text())
    pins = (PATH.parents[1] / "constraints.txt").read_text().lower().replace("_", "-")
    for name, affected, what in known:
        assert f"\n{name}==" in pins or name in ("setuptools", "pip")
        assert str(affected)
        assert ": " in what
