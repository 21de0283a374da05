"""Small models of transformers: kinds by what they read, and how a configuration is made small."""

from __future__ import annotations

TEXT = """albert bert bert-generation big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie esm flaubert fnet
funnel ibert layoutlm longformer luke megatron-bert mobilebert modernbert mpnet mra nystromformer rembert roberta roberta-prelayernorm roc_bert
roformer splinter squeezebert xlm xlm-roberta xlm-roberta-xl xlnet xmod yoso nomic_bert eurobert"""
DECODER = """biogpt bloom codegen cohere cohere2 ctrl falcon gemma gemma2 glm gpt2 gpt_bigcode gpt_neo gpt_neox gptj granite helium llama
mistral mixtral mpt nemotron olmo olmo2 openai-gpt opt persimmon phi phi3 qwen2 qwen3 rwkv smollm3 stablelm starcoder2 xglm exaone4 arcee ernie4_5"""
SEQUENCE = "bart blenderbot blenderbot-small longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus plbart prophetnet t5 umt5 fsmt led"
VISION = """beit bit convnext convnextv2 cvt data2vec-vision deit dinat dinov2 dinov2_with_registers efficientnet focalnet glpn hiera ijepa
levit mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 poolformer pvt pvt_v2 regnet resnet segformer swiftformer swin swin2sr swinv2 textnet timesformer
vit vit_hybrid vit_msn vitdet vivit dinov3_vit dinov3_convnext aimv2_vision_model siglip_vision_model clip_vision_model"""
AUDIO = "audio-spectrogram-transformer data2vec-audio hubert mctct sew sew-d unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm"

KINDS = {name: kind for kind, names in (("text", TEXT), ("decoder", DECODER), ("sequence", SEQUENCE), ("vision", VISION), ("audio", AUDIO))
         for name in names.split()}

SMALL = {
    "vocab_size": 99, "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "n_layer": 2, "n_layers": 2, "num_layers": 2, "num_hidden_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "ffn_dim": 64,
    "d_ff": 64, "d_kv": 8, "head_dim": 8, "hidden_dim": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_decoder_layers": 2, "max_position_embeddings": 64, "n_positions": 64,
    "embedding_size": 32, "word_embed_proj_dim": 32, "num_experts": 4, "num_local_experts": 4, "n_inner": 64, "image_size": 64, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "rotary_dim": 4, "emb_dim": 32, "max_seq_len": 64, "attention_window": 8, "kv_channels": 8,
    "num_encoder_layers": 2, "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "qk_rope_head_dim": 8, "sep_token_id": 3,
    "cls_token_id": 4, "mask_token_id": 5, "decoder_start_token_id": 1, "embed_dim_per_head": 8,
}
# Lists of sizes belong together and are left as they are; these kinds have no plain sizes.
AS_IT_IS = {"bit", "convnext", "convnextv2", "cvt", "efficientnet", "focalnet", "glpn", "hiera", "levit", "mobilenet_v1", "mobilenet_v2", "mobilevit",
            "mobilevitv2", "poolformer", "pvt", "pvt_v2", "regnet", "resnet", "segformer", "swiftformer", "swin", "swinv2", "swin2sr", "textnet",
            "dinat", "funnel", "mobilebert", "squeezebert", "dinov3_convnext", "openai-gpt"}
OWN = {
    "mobilebert": {"num_hidden_layers": 2, "vocab_size": 99},
    "squeezebert": {"num_hidden_layers": 2, "vocab_size": 99},
    "funnel": {"block_sizes": [1, 1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "vocab_size": 99, "num_decoder_layers": 1},
    "openai-gpt": {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 99, "n_positions": 64},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "esm": {"position_embedding_type": "rotary", "token_dropout": False},
}


def takes(config, key: str, value: object) -> bool:
    """Some have a size by another name and refuse to set it by this one."""
    try:
        had = hasattr(config, key)
        setattr(config, key, value)
        return had
    except (NotImplementedError, AttributeError):
        return False


def model_of(name: str):
    """The model and its inputs by name."""
    import torch
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = KINDS[name]
    small = OWN.get(name, {}) if name in AS_IT_IS else {**SMALL, **OWN.get(name, {})}
    config = CONFIG_MAPPING[name](**{key: value for key, value in small.items() if takes(CONFIG_MAPPING[name](), key, value)})
    config.use_cache = False
    config.return_dict = True
    config._attn_implementation = "eager"
    model = AutoModel.from_config(config)
    length = 16
    ids = torch.randint(6, 99, (1, length))
    if kind in ("text", "decoder"):
        inputs = {"input_ids": ids}
        if "attention_mask" in model.forward.__code__.co_varnames and name not in ("fnet", "rwkv", "ctrl", "xlnet"):
            inputs["attention_mask"] = torch.ones(1, length, dtype=torch.int64)
        if name == "layoutlm":
            inputs["bbox"] = torch.zeros(1, length, 4, dtype=torch.int64)
        return model, inputs, [1]
    if kind == "sequence":
        return model, {"input_ids": ids, "decoder_input_ids": torch.randint(6, 99, (1, 8))}, [1]
    if kind == "audio":
        if name == "audio-spectrogram-transformer":
            return model, {"input_values": torch.randn(1, config.max_length, config.num_mel_bins)}, []
        if name == "mctct":
            return model, {"input_features": torch.randn(1, 64, 80)}, []
        return model, {"input_values": torch.randn(1, 4000)}, [1]
    size = getattr(config, "image_size", 64)
    size = size[0] if isinstance(size, (list, tuple)) else size or 64
    if name in ("timesformer", "vivit"):
        return model, {"pixel_values": torch.randn(1, config.num_frames, 3, size, size)}, []
    return model, {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), size, size)}, []
