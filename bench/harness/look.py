"""The look set: models of the field that figures are asked of, beside those that are drawn. Weights are random; nothing is downloaded."""

from __future__ import annotations

WORDS = 128
MODELS = ["transformers/distilbert", "look/minilm_l6", "look/roberta_s384", "look/t5_small_encoder", "look/whisper_tiny_encoder", "look/clip_vit_b32",
          "torchvision/convnext_tiny", "torchvision/efficientnet_b0", "torchvision/densenet121", "torchvision/swin_t", "torchvision/mobilenet_v3_large",
          "torchvision/regnet_y_400mf"]


def _clip(torch, transformers):
    class Embeddings(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.CLIPModel(transformers.CLIPConfig())

        def forward(self, input_ids, pixel_values):
            made = self.model(input_ids=input_ids, pixel_values=pixel_values)
            return torch.cat([made.text_embeds, made.image_embeds])
    return Embeddings()


def built(torch, name: str):
    """The model and its arguments, on the CPU."""
    import transformers
    ids = lambda words, most=30000: {"input_ids": torch.randint(0, most, (1, words))}  # noqa: E731
    if name == "minilm_l6":
        config = transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
        made, named = transformers.BertModel(config), ids(WORDS)
    elif name == "roberta_s384":
        made, named = transformers.RobertaModel(transformers.RobertaConfig()), ids(384)
    elif name == "t5_small_encoder":
        made, named = transformers.T5EncoderModel(transformers.T5Config()), ids(WORDS)
    elif name == "whisper_tiny_encoder":
        made, named = transformers.WhisperModel(transformers.WhisperConfig()).get_encoder(), {"input_features": torch.randn(1, 80, 3000)}
    else:
        made, named = _clip(torch, transformers), ids(77) | {"pixel_values": torch.randn(1, 3, 224, 224)}
    return made.eval(), named
