"""A logistic regression on the vectors of a frozen encoder, as the output layer of a classifier.

Shapes: N sequences, D hidden, C classes.
"""

from itertools import chain
from typing import Any

import torch
from torch import Tensor

from cloze.data.batch import batch_by_length
from cloze.finetuning.preparation import PreparedData
from cloze.models.batch import to_device
from cloze.models.heads import ModelWithOutputLayer
from cloze.models.sentence_transformers import load_sentence_encoder_config
from cloze.progress import Progress
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.task_batch import TaskBatch

PRIOR_VARIANCE = 1.0
"""Of a weight, for vectors with a mean squared distance of 1 from their mean: `C` of scikit-learn."""
_MAX_STEPS, _MIN_SCALE = 1000, 1e-12


def fit_logistic_head(model: ModelWithOutputLayer, prepared: PreparedData, progress: Progress) -> None:
    """Fit the output layer to the training examples, after changing the encoder to pool as a sentence encoder does."""
    answer = prepared.task.answer
    stored, encoder = load_sentence_encoder_config(prepared.start), model.bert
    encoder.cpu().pool_linearly("mean" if stored is None else stored.pooling)
    model.to(prepared.context.device).eval()
    features = list(chain.from_iterable(prepared.data.train_features))
    lengths = [feature.num_tokens for feature in features]
    vectors_ND = torch.empty(len(features), encoder.config.hidden_size, dtype=torch.float64)
    with torch.inference_mode(), progress.bar("embedding", total=len(features), unit="sequences") as bar:
        device = prepared.context.device
        for indices in batch_by_length(lengths, prepared.config.micro_batch_on(device)):
            batch = to_device(answer.batch([features[i] for i in indices]), device)
            vectors_ND[indices] = encoder(batch).pooled_output.to("cpu", torch.float64)
            bar.advance(len(indices))
    weight_CD, bias_C = fit_logistic_regression(answer, vectors_ND, answer.batch(features))
    with torch.no_grad():
        model.output_layer.weight.copy_(weight_CD)
        model.output_layer.bias.copy_(bias_C)


def fit_logistic_regression(
    answer: AnswerKind[Any, Any], vectors_ND: Tensor, batch: TaskBatch
) -> tuple[Tensor, Tensor]:
    """Return weight [C, D] and bias [C] with the least loss and a Gaussian prior on the weight, by L-BFGS."""
    center_D = vectors_ND.mean(0)
    scale = (vectors_ND - center_D).square().sum(1).mean().sqrt().clamp_min(_MIN_SCALE)
    scaled_ND = (vectors_ND - center_D) / scale
    batch = to_device(batch, vectors_ND.device)
    num_classes = len(answer.class_names)
    weight_CD = scaled_ND.new_zeros(num_classes, scaled_ND.shape[1], requires_grad=True)
    bias_C = scaled_ND.new_zeros(num_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight_CD, bias_C], max_iter=_MAX_STEPS, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        loss_sum, _ = answer.loss(scaled_ND @ weight_CD.T + bias_C, batch)
        mean = (loss_sum + weight_CD.square().sum() / (2 * PRIOR_VARIANCE)) / len(scaled_ND)
        mean.backward()  # type: ignore[no-untyped-call]
        return mean.item()

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    weight_CD = weight_CD.detach() / scale
    return weight_CD, bias_C.detach() - weight_CD @ center_D
