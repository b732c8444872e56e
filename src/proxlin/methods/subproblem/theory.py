"""Theorem 1 as numbers: how many steps of SADM bring the sub-problem within a given accuracy."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from proxlin._checks import (
    check_count,
    check_exponent,
    check_non_negative,
    check_open_interval,
    check_positive,
)

_FIRST = 3  # Theorem 1 speaks of T >= 3, where log(T)/T falls


@dataclass(frozen=True)
class SADMConstants:
    """P(R^T >= k1 log(T)/T + k2 M/sqrt(T)) <= exp(-M^2/4) for all M > 0, T >= 3."""

    k1: float
    k2: float

    def bound(self, steps: int, probability: float) -> float:
        """What R^T stays below with at least this probability after T = `steps` steps."""
        check_count("steps", steps, minimum=_FIRST)
        check_open_interval("probability", probability, 0, 1)
        # exp(-M^2/4) = 1 - probability; log1p keeps probabilities near 0.
        deviation = 2 * math.sqrt(-math.log1p(-probability))
        return self.k1 * math.log(steps) / steps + self.k2 * deviation / math.sqrt(steps)


def sadm_constants(
    *,
    residual: float,
    jacobian: float,
    diameter: float,
    outputs: int,
    parameters: int,
    p: float,
    prox_weight: float,
    modulus: float,
) -> SADMConstants:
    """k1 and k2 of Theorem 1. With L = N^(1/p) d M_D + h D_C,

        k1 = L^2/(2 h) * log(4)/log(3)  +  (beta + h)/2 * D_C^2 / log(3)
        k2 = 2 N^(1/p) (M_F + sqrt(d) M_D D_C)

    These are the constants that the proof in App. C supports; they differ from the printed ones in
    three places.

    - The proof bounds R^T by L^2/(2h) log(T+1)/T + (beta+h)/2 D_C^2/T plus the mean of the noise.
      The printed k1 takes the larger of the two summands, which does not bound their sum; here both
      are added, each with the factor that holds from T = 3 on.
    - The printed k2 is M; the proof needs sigma, a bound of the noise of one step, at that place.
      The model's terms are norms and lie in [0, sigma/2], so that two of them differ by no more.
    - The tail is proved with exp(-M^2/4). The theorem states exp(-M^2/16), which is weaker and
      follows.

    Parameters
    ----------
    residual, jacobian
        M_F and M_D: the largest absolute value of an entry of F and of its Jacobian on C.
    diameter
        D_C: the largest distance of two points of C.
    outputs, parameters
        N and d.
    prox_weight, modulus
        h of the proximal term and the modulus beta > 0 of g.

    >>> sadm_constants(residual=1.0, jacobian=0.0, diameter=1.0, outputs=1, parameters=1, p=1.0,
    ...                prox_weight=2.0, modulus=1.0).k2
    2.0
    """
    check_non_negative("residual", residual)
    check_non_negative("jacobian", jacobian)
    check_positive("diameter", diameter)
    check_count("outputs", outputs)
    check_count("parameters", parameters)
    check_positive("prox_weight", prox_weight)
    check_positive("modulus", modulus)
    spread = outputs ** (1 / check_exponent("p", p))  # N^(1/p), 1 at p = inf
    lipschitz = spread * parameters * jacobian + prox_weight * diameter
    regret = lipschitz**2 / (2 * prox_weight)
    start = (modulus + prox_weight) / 2 * diameter**2
    return SADMConstants(
        k1=(regret * math.log(4) + start) / math.log(3),
        k2=2 * spread * (residual + math.sqrt(parameters) * jacobian * diameter),
    )


def sadm_iterations(
    accuracy: float,
    probability: float,
    *,
    residual: float,
    jacobian: float,
    diameter: float,
    outputs: int,
    parameters: int,
    p: float,
    prox_weight: float,
    modulus: float,
) -> int:
    """The least T >= 3 with  k1 log(T)/T + k2 M/sqrt(T) <= accuracy, M^2/4 = -log(1 - probability).

    After so many steps SADM's averages are within `accuracy` of the optimal value of the
    sub-problem with at least this probability (Theorem 1). The other arguments and the constants
    k1 and k2 are those of `sadm_constants`. It is a guarantee for the worst case: the numbers are
    far larger than what is needed in practice.

    >>> sadm_iterations(0.1, 0.95, residual=1.0, jacobian=0.1, diameter=1.0, outputs=4,
    ...                 parameters=10, p=2.0, prox_weight=1.0, modulus=0.1)
    34495
    """
    check_positive("accuracy", accuracy)
    constants = sadm_constants(
        residual=residual,
        jacobian=jacobian,
        diameter=diameter,
        outputs=outputs,
        parameters=parameters,
        p=p,
        prox_weight=prox_weight,
        modulus=modulus,
    )
    high = _FIRST
    while constants.bound(high, probability) > accuracy:
        high *= 2
    return bisect_left(
        range(high),
        True,
        lo=_FIRST,
        key=lambda steps: constants.bound(steps, probability) <= accuracy,
    )
