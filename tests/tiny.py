"""Tiny random encoders of real architectures, with a tokenizer of few words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    *("the", "a", "it", "was", "film", "and", "very", "not"),
    *("good", "great", "fine", "lovely", "bad", "awful", "poor", "dull"),
)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-"
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS[1:], *(f"##{letter}" for letter in LETTERS))
SIZES: Mapping[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dim": 32,  # intermediate_size of DistilBERT
    "max_position_embeddings": 160,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "initializer_range": 0.2,  # so that texts have different embeddings
}


def save_tiny(
    folder: Path,
    architecture: str,
    sizes: Mapping[str, Any] = SIZES,
    vocabulary: Sequence[str] = VOCABULARY,
    **options: Any,
) -> Path:
    """Save a tiny random encoder of an architecture with a tokenizer; return the folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    config = getattr(transformers, f"{architecture.removesuffix('Encoder')}Config")(**sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        getattr(transformers, f"{architecture}Model")(config, **options).save_pretrained(folder)
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    return folder
