"""Files of a head that no class of transformers computes, for two libraries.

transformers loads them with the code in `pooled_classifier.py`, which `auto_map` names.
sentence-transformers loads them without code, as a model whose `encode` returns the class scores.

An additional transformer layer of BERT could compute the mean over tokens exactly, without code, in
float32. It needs numbers that overflow in float16, however, and not all architectures permit it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from sclsearch.encoders.models import ENCODER
from sclsearch.reports.export_record import write_json
from sclsearch.reports.head_mapping import PooledHead, label_fields

_MODULES = "sentence_transformers.models"
CODE = Path(__file__).with_name("pooled_classifier.py")
"""Code that transformers runs."""


def write_pooled_classifier(
    folder: Path, head: PooledHead, labels: Sequence[str], max_length: int
) -> None:
    """Add the files of a head to an export with an `encoder` folder.

    Texts of more than `max_length` tokens are truncated.
    """
    from sclsearch.training.evaluation import save_tensors

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
    names = [path for path, kind in modules if kind == "Dense"]
    code = f"{CODE.stem}.PooledClassifier"
    auto_map = {"AutoConfig": f"{code}Config", "AutoModelForSequenceClassification": code}
    shutil.copyfile(CODE, folder / CODE.name)
    write_json(
        folder / "config.json",
        {
            "model_type": "sclsearch-pooled-classifier",
            "architectures": ["PooledClassifier"],
            "auto_map": auto_map,
            "dtype": "float32",
            "pooling": head.pooling,
            "layers": names,
            "tanh": [layer.tanh for layer in head.layers],
            **label_fields(labels),
        },
    )
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", listed)
