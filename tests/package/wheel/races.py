"""Tests, of which some have a missing wait: in the test, in a fixture before it, and in its end."""
import pytest
from traced import play


@pytest.fixture
def early():
    play('racy')


@pytest.fixture
def late():
    yield
    play('racy')


def test_right():
    play('right')


def test_racy():
    play('racy')


def test_racy_again():
    play('racy')


def test_early(early):
    pass


def test_late(late):
    pass


def test_fails():
    play('racy')
    assert 1 == 2
