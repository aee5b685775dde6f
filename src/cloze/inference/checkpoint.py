"""A checkpoint as a source of models: its files are verified and read once for all of its heads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn

from cloze.arguments import check_path
from cloze.choices import Combine, InferencePrecision
from cloze.errors import InputError
from cloze.inference.model_files import HeadKind, ModelFiles
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, get_encoder_class
from cloze.models.encoder_config import EncoderConfig
from cloze.models.heads import BertForFeatureExtraction, BertForMaskedLM, BertForNextSentencePrediction
from cloze.models.pooling import Pooling
from cloze.models.quantization import stored_precision
from cloze.models.sentence_encoder import SentenceEncoder
from cloze.models.torch_engine import TorchEngine
from cloze.models.weight_files import load_weights
from cloze.models.weight_mapping import MissingWeightsError
from cloze.tasks.config import load_task
from cloze.tasks.task import AnyTask
from cloze.training.precision import prepare_for_inference, resolve_device

Model = TypeVar("Model", bound=nn.Module)

_BIASES: Mapping[HeadKind, str] = {
    "masked-word": "masked_lm.bias",
    "next-sentence": "next_sentence.bias",
}
"""A weight of each head, by its name in cloze."""


@dataclass(frozen=True)
class Checkpoint(ModelFiles):
    """A checkpoint whose files are verified and read once for all the models that are built from it."""

    precision: InferencePrecision = "float32"
    """Number format of matrix products."""

    @classmethod
    def open(cls, model: Path | str, *, precision: InferencePrecision | None = None) -> "Checkpoint":
        """Return the checkpoint of a model, or the best one of a run; refuse an exported graph.

        Args:
            precision: number format of matrix products; None is float32, or int8 for the directory of an int8 model.
        """
        path = resolve_checkpoint(check_path(model, "model"))
        return cls(path, precision or stored_precision(path))

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The weights by their Hugging Face names."""
        return load_weights(self.directory, self.encoder_class.names)

    @cached_property
    def config(self) -> EncoderConfig:
        verify_checkpoint(self.directory)  # first: a directory of another kind is reported as such
        return load_config(self.directory)

    @property
    def encoder_class(self) -> type[Encoder]:
        return get_encoder_class(self.config)

    def has(self, head: HeadKind) -> bool:
        if head == "vectors":
            return True
        if head == "masked-word" and self.config.attends_to != "all":
            return False
        names = self.encoder_class.names.heads[_BIASES[head]]
        return all(name in self.weights for name in names)

    def load_model(self, head: Callable[[Encoder], Model], *, device: str) -> Model:
        """Return a model in evaluation mode; models on the CPU share their weights.

        Raises:
            InputError: it is damaged, or was fine-tuned for another task.
        """
        try:
            model = load_model(self.directory, head, verify=False, weights=self.weights)
        except MissingWeightsError as error:
            finetuned = load_task(self.directory)
            if finetuned is None:
                raise
            what = f"a model for the task {finetuned[0].name!r}: {error.what}"
            raise InputError(what, where=self.directory, remedy="Give a pre-trained model") from error
        model = model.to(resolve_device(device))
        prepare_for_inference(model, self.precision)
        return model

    def finetuned_engine(self, task: AnyTask, *, device: str) -> TorchEngine:
        return TorchEngine(self.load_model(task.answer.head, device=device))

    def masked_lm_engine(self, *, device: str) -> TorchEngine:
        if (attends_to := self.config.attends_to) != "all":
            what = f"attends to the {attends_to} only, and does not predict masked tokens"
            raise InputError(what, where=self.directory)
        return TorchEngine(self.load_model(BertForMaskedLM, device=device))

    def next_sentence_engine(self, *, device: str) -> TorchEngine:
        if not self.encoder_class.trains_on_pairs and not self.has("next-sentence"):
            family = self.encoder_class.names.family
            what = f"a model of the family {family}, which is not pre-trained on pairs of sentences"
            raise InputError(what, where=self.directory, remedy="Give a BERT with its next-sentence head")
        return TorchEngine(self.load_model(BertForNextSentencePrediction, device=device))

    def vector_engine(
        self,
        pooling: Pooling,
        *,
        normalize: bool,
        truncate_dim: int | None,
        layers: tuple[int, ...],
        combine: Combine,
        device: str,
    ) -> TorchEngine:
        # this head does not use the pooler, which many checkpoints lack
        encoder = self.load_model(BertForFeatureExtraction, device=device).bert
        head = SentenceEncoder(
            encoder,
            pooling=pooling,
            normalize=normalize,
            truncate_dim=truncate_dim,
            layers=layers,
            combine=combine,
        )
        return TorchEngine(head)
