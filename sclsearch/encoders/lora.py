"""Low-rank adaptation of an encoder (LoRA), by peft: Hu et al., https://arxiv.org/abs/2106.09685.

Every linear layer W gets a trained update (32 / r) B A of rank r, and all pretrained weights stay
as they are. The factor 32 / r makes the best learning rate nearly independent of r. peft is an
extra dependency.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from peft.tuners.lora import LoraModel
    from transformers import PreTrainedModel

ALPHA = 32
ADAPTER = ".lora_"
"""Part of the names of an adapter's weights."""
_FIRST = ".lora_A.default.weight"


def check_lora(encoder: Encoder) -> None:
    """Raise SclsearchError if peft is missing or the encoder's layers would get no adapter."""
    if find_spec("peft") is None:
        raise SclsearchError("lora_rank: needs peft. Run pip install 'sclsearch[lora]'.")
    modules = encoder.model.named_modules()
    if all(name.startswith("pooler.") for name, one in modules if isinstance(one, nn.Linear)):
        raise SclsearchError(
            f"lora_rank: the layers of {encoder.model.config.model_type} have no linear modules to "
            "adapt. Leave it out, or choose another encoder."
        )


def add_adapter(encoder: Encoder, rank: int) -> "LoraModel":
    """Add an adapter to an encoder, with new random weights, and return peft's model of it."""
    from peft import LoraConfig
    from peft.tuners.lora import LoraModel

    config = LoraConfig(r=rank, lora_alpha=ALPHA, target_modules="all-linear")
    return LoraModel(encoder.model, config, "default")


def train_weights(encoder: Encoder, *, training: bool, adapter: bool) -> None:
    """Choose the weights that training changes: all of an encoder, its adapter's alone, or none."""
    for name, weight in encoder.named_parameters():
        weight.requires_grad_(training and (ADAPTER in name or not adapter))


def stored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a model's weights without the pretrained ones, if its encoder has an adapter."""
    adapted = any(ADAPTER in name for name in weights)
    return {
        name: tensor
        for name, tensor in weights.items()
        if not adapted or ADAPTER in name or not name.startswith("encoder.")
    }


def merged(weights: Mapping[str, Tensor], folder: Path, name: str) -> Mapping[str, Tensor]:
    """Return a model's stored weights with the adapter, if any, added to the pretrained ones."""
    ranks = [len(tensor) for key, tensor in weights.items() if key.endswith(_FIRST)]
    if not ranks:
        return weights
    encoder = load_encoder(folder, name)
    adapted, prefix = add_adapter(encoder, ranks[0]), "encoder."
    own = {key.removeprefix(prefix): t for key, t in weights.items() if key.startswith(prefix)}
    encoder.load_state_dict(own, strict=False)
    encoder.model = cast("PreTrainedModel", adapted.merge_and_unload())
    whole = {f"{prefix}{key}": tensor for key, tensor in encoder.state_dict().items()}
    return whole | {key: t for key, t in weights.items() if not key.startswith(prefix)}
