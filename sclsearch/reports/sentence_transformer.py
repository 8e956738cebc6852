"""Files of a sentence-transformers model whose `encode` returns the class scores of a head."""

from pathlib import Path

from sclsearch.encoders.models import ENCODER
from sclsearch.reports.export_record import write_json
from sclsearch.reports.head_mapping import PooledHead

_MODULES = "sentence_transformers.models"


def write_sentence_transformer(folder: Path, head: PooledHead, max_length: int) -> None:
    """Add the module files of a sentence-transformers model to an export with an `encoder` folder.

    Texts of more than `max_length` tokens are truncated.
    """
    from sclsearch.training.result import save_tensors

    mean = head.pooling == "mean"
    modules = [(ENCODER, "Transformer"), ("1_Pooling", "Pooling")]
    write_json(folder / ENCODER / "sentence_bert_config.json", {"max_seq_length": max_length})
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": head.layers[0].weight.shape[1],
            "pooling_mode_cls_token": not mean,
            "pooling_mode_mean_tokens": mean,
        },
    )
    for number, layer in enumerate(head.layers, 2):
        name = f"{number}_Dense"
        modules.append((name, "Dense"))
        (folder / name).mkdir()
        write_json(
            folder / name / "config.json",
            {
                "in_features": layer.weight.shape[1],
                "out_features": layer.weight.shape[0],
                "bias": True,
                "activation_function": "torch.nn.modules."
                + ("activation.Tanh" if layer.tanh else "linear.Identity"),
            },
        )
        tensors = {"linear.weight": layer.weight, "linear.bias": layer.bias}
        save_tensors(folder / name / "model.safetensors", tensors, {"format": "pt"})
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listed)
