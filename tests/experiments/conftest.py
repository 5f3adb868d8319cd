"""Tiny configurations of every figure, and inputs that never touch the network or the user's cache."""

import pytest

from bilsh.experiments import (
    Inputs,
    beyond,
    bounds,
    cost,
    covariance,
    equal_time,
    flickr,
    mnist,
    rff,
)
from bilsh.experiments.retrieval import Protocol

DIGITS = Protocol("digits", n_queries=20, repetitions=2)
GENERATED = Protocol("generated", n_queries=8, neighbor=5, repetitions=1)

TINY = {
    "rff": rff.Config(data="digits", sides=(4, 15), n_pairs=12, n_draws=2000),
    "bounds": bounds.Config(
        data="digits", side=8, n_curve=21, kernel_values=(0.2, 0.8), n_encoders=8, n_bits=100
    ),
    "covariance": covariance.Config(
        data="digits", side=8, n_curve=21, kernel_values=(0.2, 0.8), n_encoders=8, n_bits=100
    ),
    "mnist": mnist.Config(DIGITS, bits=(64, 144), oversamplings=(1, 5)),
    "flickr": flickr.Config(
        GENERATED, bits=(64,), oversamplings=(1, 5), n_copies=6, copy_bits=(64,), copy_repetitions=1
    ),
    "time": cost.Config(shape=(8, 8), bits=(64,), oversamplings=(1,), n_items=8, repeats=1, budget=1000),
    "equal-time": equal_time.Config(
        GENERATED, bits=(64, 144), oversamplings=(1,), n_items=8, repeats=1, probe_bits=16
    ),
    "beyond": beyond.Config(
        DIGITS,
        bits=(64,),
        time_bits=(16, 64),
        reference_bits=64,
        n_items=64,
        repeats=1,
        peers_data="digits",
        peer_bytes=(8,),
        peer_queries=20,
        copies_data="generated",
        n_copies=6,
        copy_bits=(64,),
        copy_repetitions=2,
    ),
}
"""Configurations that take about a second each."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="session")
def inputs(cache):
    return Inputs(cache, n_pictures=40)


@pytest.fixture(scope="session")
def tiny():
    return TINY
