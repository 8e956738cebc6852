"""Attention of label vectors over the tokens of a text, as in LEAM and in LSAN.

LEAM: Wang et al., 2018, https://arxiv.org/abs/1805.04174. LSAN: Xiao et al., 2019,
https://aclanthology.org/D19-1044. Both read the encoder's last hidden states, where the papers
have word vectors and an LSTM. Padding gets no weight and does not affect its neighbors.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sclsearch.errors import SclsearchError


class WindowAttention(nn.Module):
    """LEAM's attention, which weights tokens by the best label match in a window around them.

    With the vector l_c of label c and the state E_t of token t, the convolution mixes the C rows of
    G: z = Σ_t β_t E_t, β = softmax(m), m_t = max_c ReLU(conv(G))_ct, G_ct = cos(l_c, E_t). It is
    Eq. (9) of LaCon.

    Args:
        classes: C.
        kernel: Tokens in a window, odd.
    """

    def __init__(self, classes: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(classes, classes, kernel, padding=kernel // 2)

    def forward(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the weighted sum, `[B, d]`, of states `[B, T, d]`, by labels `[C, d]`."""
        return (self.weights(states, labels, mask)[:, None] @ states).squeeze(1)

    def weights(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the weight of each token, `[B, T]`; the arguments are those of `forward`."""
        cosines = F.normalize(labels, dim=-1) @ F.normalize(states, dim=-1).mT  # [B, C, T]
        matches: Tensor = self.conv(cosines * mask[:, None]).relu()
        return matches.amax(1).masked_fill(~mask, -torch.inf).softmax(1)


class LabelSpecificAttention(nn.Module):
    """LSAN's attention: one text vector per label, from a gated mix of self- and label attention.

        M_c = α_c M_c^l + (1 - α_c) M_c^s
        M_c^l = Σ_t (l_c·E_t) E_t
        M_c^s = Σ_t softmax_t(W_2 tanh(W_1 E_t))_c E_t
        α_c = σ(w_l·M_c^l) / (σ(w_l·M_c^l) + σ(w_s·M_c^s))

    Args:
        width: d, of states and label vectors.
        classes: C.
        hidden: Width of the hidden layer of the self-attention.
    """

    def __init__(self, width: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, classes)
        self.own_gate = nn.Linear(width, 1)
        self.label_gate = nn.Linear(width, 1)

    def forward(self, states: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the text vector of each label, `[B, C, d]`, from states `[B, T, d]`."""
        logits = self.second(self.first(states).tanh()).mT  # [B, C, T]
        own = logits.masked_fill(~mask[:, None], -torch.inf).softmax(-1) @ states  # [B, C, d]
        by_label = (labels @ states.mT * mask[:, None]) @ states  # [B, C, d]
        gate: Tensor = self.label_gate(by_label).sigmoid()  # [B, C, 1]
        share = gate / (gate + self.own_gate(own).sigmoid())
        mixed: Tensor = share * by_label + (1 - share) * own
        return mixed


def check_window(kernel: int, where: str) -> None:
    """Raise SclsearchError if a window size is even and thus has no middle token."""
    if kernel % 2 == 0:
        raise SclsearchError(
            f"{where}: must be odd, so that a window has a middle token, got {kernel}. "
            f"Use {kernel - 1} or {kernel + 1}."
        )
