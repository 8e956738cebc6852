"""Classifier of a text encoder, a pooling and linear layers, for transformers.

sclsearch adds this file to exports whose head no class of transformers computes. transformers runs
it in `pipeline("text-classification", model=FOLDER, trust_remote_code=True)`.
"""

from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    AutoConfig,
    AutoModel,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.hub import cached_file

HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token")


class PooledClassifierConfig(PretrainedConfig):  # type: ignore[no-untyped-call]
    """Configuration of `PooledClassifier`: folder of each linear layer, and whether tanh follows.

    `pooling` is `first` for the state of the first token, `mean` for the mean over tokens.
    """

    model_type = "sclsearch-pooled-classifier"
    pooling: str = "mean"
    layers: tuple[str, ...] = ()
    tanh: tuple[bool, ...] = ()


class PooledClassifier(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Encoder with a head of linear layers on its pooled states."""

    config_class = PooledClassifierConfig

    def __init__(self, config: PooledClassifierConfig, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__(config)
        self.encoder = encoder
        self.head = head

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name: str, *_: Any, config: PooledClassifierConfig | None = None, **options: Any
    ) -> "PooledClassifier":
        """Return the classifier in a folder or in a repository of the hub.

        The encoder is in the subfolder `encoder`; `options` are those of `AutoModel`.
        """
        hub = {option: options[option] for option in HUB if option in options}
        config = config or PooledClassifierConfig.from_pretrained(name, **hub)
        own = AutoConfig.from_pretrained(name, subfolder="encoder", **hub)
        # Only a class of its own, as T5 has, leaves out a decoder.
        kind: Any = MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(own), AutoModel)
        encoder = kind.from_pretrained(name, subfolder="encoder", **options)
        head = nn.Sequential()
        for folder, tanh in zip(config.layers, config.tanh, strict=True):
            stored = load_file(str(cached_file(name, f"{folder}/model.safetensors", **hub)))
            outputs, inputs = stored["linear.weight"].shape
            linear = nn.Linear(inputs, outputs)
            linear.load_state_dict({key.removeprefix("linear."): stored[key] for key in stored})
            head.extend([linear, nn.Tanh()] if tanh else [linear])
        model = cls(config, encoder, head.to(encoder.device, encoder.dtype))
        model.eval()  # type: ignore[no-untyped-call]
        return model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **_: Any,
    ) -> SequenceClassifierOutput:
        """Return the scores of the classes, `[texts, C]`, as `logits`."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        inputs = {"input_ids": input_ids, "attention_mask": mask}
        if token_type_ids is not None and getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = token_type_ids
        states = self.encoder(**inputs).last_hidden_state  # [texts, T, d]
        pooled = states[:, 0]
        if self.config.pooling == "mean":
            weights = mask[..., None].to(states.dtype)
            pooled = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        return SequenceClassifierOutput(logits=self.head(pooled))
