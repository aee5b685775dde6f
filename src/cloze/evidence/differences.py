"""Whether one of two ways of doing a thing is better, by what both of them reached in the same trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """By how much the first of two is more in the mean, over pairs."""

    mean: float
    low: float
    """The ends of the interval that holds the true mean with a confidence of 95%, by Student's t."""
    high: float

    def described(self, digits: int) -> str:
        """Say mean and interval; pairs that all differ alike, as of runs that learned nothing, give no interval."""
        if self.low == self.high:
            return f"{self.mean:+.{digits}f}"
        return f"{self.mean:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> PairedDifference:
    """Return the mean difference of pairs and its confidence interval; at least two pairs."""
    from scipy import stats

    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    mean = fmean(differences)
    error = stdev(differences) / len(differences) ** 0.5
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, len(differences) - 1)) * error
    return PairedDifference(mean, mean - half, mean + half)
