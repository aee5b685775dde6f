"""Distillation of a teacher into a student: the settings, and the losses between their outputs.

Source: Hinton et al. 2015, 2.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from cloze.config import check_interval

IMPOSSIBLE = -1e9
"""Logit of padding, which is not infinite: the divergence of two impossible classes is 0, not NaN."""

_TEMPERATURE, _WEIGHT = 2.0, 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationConfig:
    """A run whose model, the student, learns the outputs of a teacher (Hinton et al. 2015)."""

    teacher: str | None = None
    """The checkpoint or run to learn from, fine-tuned for the task; None learns from the labels alone."""
    teacher_sha256: str | None = None
    """SHA-256 of the teacher, set at the start of the run; another teacher is refused."""
    unlabeled: str | None = None
    """More texts to learn from, in the format of `cloze predict`; only the teacher says what is right."""
    temperature: float = _TEMPERATURE
    """Divides the logits of both; a higher one stresses the less probable classes. Numbers and cosines have none."""
    weight: float = _WEIGHT
    """Share of the teacher's outputs in the loss; labels have the rest. Hinton et al. give labels a low weight."""
    student_layers: tuple[int, ...] = ()
    """The layers of the initial model that the student keeps, counted from 0; empty keeps all (Sanh et al. 2019)."""

    def __post_init__(self) -> None:
        check_interval(self, "(0, inf)", "temperature")
        check_interval(self, "(0, 1]", "weight")
        if self.teacher is None:
            if self.unlabeled is not None:
                raise ValueError("unlabeled texts need a teacher")
            if (self.temperature, self.weight) != (_TEMPERATURE, _WEIGHT):
                raise ValueError("temperature and weight need a teacher")
        layers = list(self.student_layers)
        if layers != sorted(set(layers)) or min(layers, default=0) < 0:
            raise ValueError(f"student_layers {layers} must be distinct, in order, and 0 or more")


def softmax_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Return the Kullback-Leibler divergence of the student's softmax from the teacher's, summed over the rows.

    Times the squared temperature, so that gradients have the same size at each.

    Args:
        logits: the student's, finite.
        teacher_logits: of the same shape.
        temperature: divides both.
    """
    log_probabilities = (logits / temperature).log_softmax(-1)
    teacher_probabilities = (teacher_logits / temperature).softmax(-1)
    divergence = nn.functional.kl_div(log_probabilities, teacher_probabilities, reduction="sum")
    return temperature**2 * divergence


def sigmoid_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Return the divergence of each sigmoid from the teacher's, times the squared temperature, in the same shape."""
    cross_entropy = nn.functional.binary_cross_entropy_with_logits
    teacher_probabilities = (teacher_logits / temperature).sigmoid()
    entropy = cross_entropy(teacher_logits / temperature, teacher_probabilities, reduction="none")
    loss = cross_entropy(logits / temperature, teacher_probabilities, reduction="none")
    return temperature**2 * (loss - entropy)
