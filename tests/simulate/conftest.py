"""What several tests of steps ask for."""

import sys

import pytest


@pytest.fixture
def no_xla(monkeypatch):
    """Steps by XLA's body are refused."""

    def refuse(*_):
        raise AssertionError("a step by XLA")

    monkeypatch.setattr(sys.modules["kinetree.simulate.advance"], "_traced", refuse)
