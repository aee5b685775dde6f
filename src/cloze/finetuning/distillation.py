"""Distillation of a teacher into a student: the settings.

Source: Hinton et al. 2015, 2.
"""

from dataclasses import dataclass

from cloze.config import check_interval

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
