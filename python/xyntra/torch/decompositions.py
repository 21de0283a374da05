"""How operators are taken apart that the importer does not take: as torch.export does it for its core operators, and layers that torch has as one call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn import functional as F

from xyntra import _native

_aten = torch.ops.aten
# What torch.export keeps whole.
_MORE = [_aten._native_batch_norm_legit_functional.default]


@functools.cache
def decompositions() -> dict[Any, Callable]:
    """By overload, but for those that the importer takes as they are."""
    taken = {schema.partition("(")[0] for schema in _native.operators()}
    table = {**get_decompositions(_MORE), **core_aten_decompositions(), **_LAYERS}
    return {overload: function for overload, function in table.items()
            if not (isinstance(overload, torch._ops.OpOverload) and (overload._name in taken or torch.Tag.nondeterministic_seeded in overload.tags))}


def _mask(mask: torch.Tensor | None, mask_type: int | None) -> torch.Tensor | None:
    """What attention may look at; torch's layers say what it may not, with anything but 0. Types are: of all pairs, of keys, of pairs for each batch
    and head."""
    if mask is None:
        return None
    return (mask[:, None, None, :] if mask_type == 1 else mask) == 0


def _multi_head_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, embed_dim: int, num_head: int, qkv_weight: torch.Tensor,
                          qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor, mask: torch.Tensor | None = None,
                          need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None) -> Any:
    if need_weights or query.is_nested:
        return NotImplemented
    if query is key and key is value:
        projected = F.linear(query, qkv_weight, qkv_bias).split(embed_dim, -1)
    else:
        weights, biases = qkv_weight.split(embed_dim), qkv_bias.split(embed_dim)
        projected = [F.linear(*operands) for operands in zip((query, key, value), weights, biases)]
    q, k, v = (one.unflatten(-1, (num_head, -1)).transpose(1, 2) for one in projected)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=_mask(mask, mask_type))
    return F.linear(mixed.transpose(1, 2).flatten(2), proj_weight, proj_bias), None


def _encoder_layer(src: torch.Tensor, embed_dim: int, num_heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor,
                   proj_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor,
                   norm_weight_2: torch.Tensor, norm_bias_2: torch.Tensor, ffn_weight_1: torch.Tensor, ffn_bias_1: torch.Tensor,
                   ffn_weight_2: torch.Tensor, ffn_bias_2: torch.Tensor, mask: torch.Tensor | None = None, mask_type: int | None = None) -> Any:
    def attention(x: torch.Tensor) -> Any:
        return _multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)

    def first(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def forward(x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    mixed = attention(first(src) if norm_first else src)
    if mixed is NotImplemented:
        return NotImplemented
    x = src + mixed[0]
    if norm_first:
        return x + forward(second(x))
    x = first(x)
    return second(x + forward(x))


_LAYERS: dict[Any, Callable] = {_aten._native_multi_head_attention.default: _multi_head_attention, _aten._transformer_encoder_layer_fwd.default: _encoder_layer}
