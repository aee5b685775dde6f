"""The engine that computes in PyTorch."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cloze.data.batch import PackedBatch
from cloze.models.batch import to_device
from cloze.models.encoder import get_encoder
from cloze.models.engine import FloatArray

_MAX_TOKENS_ON_CPU = 1024  # their widest activations stay in the cache
_MAX_TOKENS = 65_536  # other devices need more work at once


class TorchEngine:
    """An encoder or a head on one, in PyTorch."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module.eval()
        self.device = next(module.parameters()).device
        self.device_type = self.device.type
        self.num_parameters = sum(parameter.numel() for parameter in module.parameters())
        self.batch_tokens = _MAX_TOKENS_ON_CPU if self.device_type == "cpu" else _MAX_TOKENS

    @property
    def number_format(self) -> str:
        encoder = get_encoder(self.module)
        return str(encoder.autocast_dtype or torch.float32).removeprefix("torch.")

    @torch.inference_mode()
    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        module: Any = self.module
        return _DeviceOutputs(module.named_outputs(to_device(batch, self.device)))


class _DeviceOutputs(Mapping[str, FloatArray]):
    """Outputs on a device. Each is copied when it is read, so that the device need not wait after every batch."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def __getitem__(self, name: str) -> FloatArray:
        return self._tensors[name].float().cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
