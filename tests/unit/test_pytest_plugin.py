"""The pytest plugin, in a pytest of its own: markers, options, bad input. Runs of it: tests/lab/test_pytest_lab.py."""

from __future__ import annotations

import os

import pandas  # noqa: F401 - pytester forgets what is first imported in a test, and numpy cannot be imported twice
import pytest
import yaml  # noqa: F401 - nor can its part in C

from r2cc.needs import missing

pytest_plugins = "pytester"
# The inner pytest must not be told of warnings that only our pyproject.toml knows.
PLUGINS = ("-p", "no:cacheprovider")


def test_what_is_missing_is_a_reason_to_skip(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.r2cc_needs("verbs", gpus=1000)
        def test_much():
            assert False

        @pytest.mark.r2cc_needs(hosts=2)
        def test_hosts_that_the_lab_makes():
            pass
        """
    )
    result = pytester.runpytest(*PLUGINS, "--strict-markers", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs RDMA devices, and 'lab' has none: *; needs 1000 GPUs, and 'lab' has *"])


def test_an_inventory_has_as_many_hosts_as_it_says(pytester: pytest.Pytester) -> None:
    pytester.makefile(".yaml", hosts="hosts:\n- name: a[1-3]\n")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.r2cc_needs(hosts=3)
        def test_three():
            pass

        @pytest.mark.r2cc_needs(hosts=4)
        def test_four():
            assert False
        """
    )
    result = pytester.runpytest(*PLUGINS, "--r2cc-inventory", "hosts.yaml", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs 4 hosts, and 'hosts.yaml' has 3"])


def test_bad_input_is_said_in_words(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, r2cc

        @pytest.mark.r2cc_needs("luck")
        def test_a_word():
            pass

        def test_an_experiment(r2cc_run, tmp_path):
            with pytest.raises(r2cc.InputErrors, match="arms is required"):
                r2cc_run({"name": "x", "topology": {"hosts": 2, "nics": 2}, "workload": {}})
            assert not (tmp_path / "runs").exists()

        def test_a_lab(r2cc_lab):
            with pytest.raises(r2cc.InputErrors, match="hosts"):
                r2cc_lab(hosts=0, nics=2)
        """
    )
    result = pytester.runpytest(*PLUGINS)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*r2cc_needs: 'luck' is nothing to need*", "*root, lab, verbs, hosts=2 or gpus=2*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_options_and_fixtures_are_shown(pytester: pytest.Pytester) -> None:
    shown = pytester.runpytest(*PLUGINS, "--help").stdout.str()
    assert "--r2cc-runs" in shown and "--r2cc-inventory" in shown
    assert "@pytest.mark.r2cc_needs(" in pytester.runpytest(*PLUGINS, "--markers").stdout.str()
    fixtures = pytester.runpytest(*PLUGINS, "--fixtures").stdout.str()
    assert "r2cc_run" in fixtures and "r2cc_lab" in fixtures


def test_root() -> None:
    assert bool(missing("lab", "root")) == (os.geteuid() != 0)
