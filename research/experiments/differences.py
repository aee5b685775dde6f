"""Compare two methods by their scores in the same trials."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference of the first method to the second, over pairs."""

    mean: float
    low: float
    """Lower end of the 95% confidence interval of the mean, by Student's t."""
    high: float

    def format(self, digits: int) -> str:
        """Return mean and interval; the mean alone if all pairs differ by the same."""
        if self.low == self.high:
            return f"{self.mean:+.{digits}f}"
        return f"{self.mean:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> PairedDifference:
    """Return the mean difference of pairs and its confidence interval, which is the mean alone for one pair."""
    from scipy import special

    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    mean = fmean(differences)
    if len(differences) == 1:
        return PairedDifference(mean, mean, mean)
    error = stdev(differences) / len(differences) ** 0.5
    half = float(special.stdtrit(len(differences) - 1, (1 + _CONFIDENCE) / 2)) * error
    return PairedDifference(mean, mean - half, mean + half)
