"""The models of peers.py, for each engine in its own form: torch modules, ONNX files, CTranslate2's
specification."""

import json

import numpy as np
import torch
from ctranslate2.specs import TransformerSpec, common_spec
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

D, HEADS, LAYERS, FF, VOCAB, BOS, EOS = 512, 8, 6, 2048, 10_000, 2, 3
POSITIONS = 64
# What is run: tokens of source and target, sequences at a time.
SOURCE, NEW, BATCHES = 10, 20, (1, 32)


class Bert(nn.Module):
    """MiniLM as Hugging Face runs it: ids in, a vector for each token out."""

    vocab = 30522

    def __init__(self, folder):
        super().__init__()
        from transformers import BertModel

        self.bert = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()

    def forward(self, source):
        return self.bert(input_ids=source, attention_mask=torch.ones_like(source)).last_hidden_state


class TokenEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, D)

    def forward(self, tokens):
        return self.embedding(tokens) * D**0.5


class PositionalEncoding(nn.Module):
    def __init__(self):
        super().__init__()
        angles = torch.arange(POSITIONS)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        table = torch.stack([angles.sin(), angles.cos()], -1).reshape(POSITIONS, 1, D)
        self.register_buffer("pos_embedding", table)

    def forward(self, x, at):
        return x + self.pos_embedding[at, 0]


class Translator(nn.Module):
    """PyTorch's tutorial around nn.Transformer, with the names that `picoformer convert torch` reads."""

    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(D, HEADS, LAYERS, LAYERS, FF, batch_first=True)
        self.generator = nn.Linear(D, VOCAB)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(), TokenEmbedding()
        self.positional_encoding = PositionalEncoding()

    def encode(self, source):
        at = torch.arange(source.shape[1])
        return self.transformer.encoder(self.positional_encoding(self.src_tok_emb(source), at))

    def forward(self, source, target):
        at = torch.arange(target.shape[1])
        mask = torch.full((target.shape[1], target.shape[1]), float("-inf")).triu(1)
        x = self.positional_encoding(self.tgt_tok_emb(target), at)
        return self.generator(self.transformer.decoder(x, self.encode(source), tgt_mask=mask, tgt_is_causal=True))


def translator():
    torch.manual_seed(0)
    model = Translator().eval()
    # As large as the positions once they are scaled: what is generated then depends on the source.
    for table in (model.src_tok_emb, model.tgt_tok_emb):
        nn.init.normal_(table.embedding.weight, std=D**-0.5)
    return model


def empty_caches(batch):
    return [torch.zeros(batch, HEADS, 0, D // HEADS) for _ in range(2 * LAYERS)]


def heads(x):
    return x.unflatten(-1, (HEADS, D // HEADS)).transpose(1, 2)


def part(attention, x, start, end):
    """Rows of the packed projection: 0 the queries, 1 the keys, 2 the values."""
    rows = slice(start * D, end * D)
    return F.linear(x, attention.in_proj_weight[rows], attention.in_proj_bias[rows])


class Encode(nn.Module):
    """nn.Transformer has no cache: this gives the cross-attentions' keys and values, k0 v0 k1 …"""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source):
        memory = self.model.encode(source)
        layers = self.model.transformer.decoder.layers
        return [heads(x) for l in layers for x in part(l.multihead_attn, memory, 1, 3).chunk(2, -1)]


class Step(nn.Module):
    """One greedy step of nn.Transformer's decoder: the best next token, and the longer caches."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, token, at, *state):
        own, cross = state[: 2 * LAYERS], state[2 * LAYERS :]
        model, new = self.model, []
        x = model.positional_encoding(model.tgt_tok_emb(token[:, None]), at)
        for i, layer in enumerate(model.transformer.decoder.layers):
            q, k, v = (heads(y) for y in part(layer.self_attn, x, 0, 3).chunk(3, -1))
            k, v = torch.cat([own[2 * i], k], 2), torch.cat([own[2 * i + 1], v], 2)
            new += [k, v]
            x = layer.norm1(x + self.attend(layer.self_attn, q, k, v))
            q = heads(part(layer.multihead_attn, x, 0, 1))
            x = layer.norm2(x + self.attend(layer.multihead_attn, q, cross[2 * i], cross[2 * i + 1]))
            x = layer.norm3(x + layer.linear2(layer.linear1(x).relu()))
        logits = model.generator(model.transformer.decoder.norm(x[:, 0]))
        return [logits.argmax(-1), *new]

    @staticmethod
    def attend(attention, q, k, v):
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return attention.out_proj(mixed)


def export(model, root, work):
    """Writes what the engines read: ONNX files, and the Transformer's weights for us."""

    def onnx(module, inputs, names, outputs, axes, name):
        torch.onnx.export(
            module, inputs, work / f"{name}.onnx", input_names=names, output_names=outputs,
            dynamic_axes=axes, dynamo=False, opset_version=17,
        )

    ids, batch = torch.arange(20).reshape(2, 10) + 4, {0: "batch", 1: "length"}
    if model == "minilm":
        return onnx(Bert(root / "models/minilm"), (ids,), ["source"], ["vectors"], {"source": batch}, "minilm")
    ours = translator()
    folder = work / "transformer"
    folder.mkdir(exist_ok=True)
    save_file(ours.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"nhead": HEADS, "bos": BOS, "eos": EOS}))
    # Its fused encoder has no ONNX form.
    torch.backends.mha.set_fastpath_enabled(False)
    caches = [f"{kind}{i}" for i in range(LAYERS) for kind in "kv"]
    cross = [f"cross_{name}" for name in caches]
    # The tracer writes nn.MultiheadAttention's sizes down as constants: a file for each batch.
    for rows in BATCHES:
        source, target = torch.ones(rows, SOURCE, dtype=torch.long), torch.ones(rows, NEW, dtype=torch.long)
        onnx(ours, (source, target), ["source", "target"], ["logits"], {}, f"transformer{rows}")
        onnx(Encode(ours), (source,), ["source"], cross, {}, f"encode{rows}")
    own, new = [f"own_{name}" for name in caches], [f"new_{name}" for name in caches]
    axes = {name: {0: "batch", 2: "past"} for name in own} | {name: {0: "batch", 2: "length"} for name in cross}
    axes |= {name: {0: "batch", 2: "longer"} for name in new}
    # Not empty: a tracer takes an empty one for a constant.
    state = [torch.zeros(2, HEADS, 3, D // HEADS)] * (2 * LAYERS)
    inputs = (ids[:, 0], torch.tensor([3]), *state, *Encode(ours)(ids))
    onnx(Step(ours), inputs, ["token", "at", *own, *cross], ["next", *new], axes | {"token": {0: "batch"}}, "step")
    torch.backends.mha.set_fastpath_enabled(True)


def vocabulary():
    """CTranslate2 speaks in words."""
    return ["<unk>", "<pad>", "<s>", "</s>", *(str(i) for i in range(4, VOCAB))]


def specification(model):
    """CTranslate2's form of nn.Transformer."""
    # PyTorch normalises after each layer and after each stack once more; here only stacks that normalise
    # before their layers have that last norm, so it is made for one and the order is changed below.
    spec = TransformerSpec.from_config((LAYERS, LAYERS), HEADS, pre_norm=True, activation=common_spec.Activation.RELU)

    def set_linear(to, weight, bias):
        to.weight, to.bias = weight.detach().numpy(), bias.detach().numpy()

    def set_norm(to, norm):
        to.gamma, to.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()

    def set_attention(to, attention, packed):
        weight, bias = attention.in_proj_weight, attention.in_proj_bias
        for linear, (start, end) in zip(to.linear, packed):
            set_linear(linear, weight[start * D : end * D], bias[start * D : end * D])
        set_linear(to.linear[-1], attention.out_proj.weight, attention.out_proj.bias)

    def set_stack(to, stack, embedding):
        tokens = to.embeddings[0] if isinstance(to.embeddings, list) else to.embeddings
        tokens.weight = embedding.embedding.weight.detach().numpy()
        to.scale_embeddings = True
        to.position_encodings.encodings = model.positional_encoding.pos_embedding[:, 0].numpy()
        to.pre_norm = np.dtype("int8").type(0)
        set_norm(to.layer_norm, stack.norm)
        for to, layer in zip(to.layer, stack.layers):
            set_attention(to.self_attention, layer.self_attn, [(0, 3)])
            set_norm(to.self_attention.layer_norm, layer.norm1)
            last = layer.norm2
            if hasattr(layer, "multihead_attn"):
                set_attention(to.attention, layer.multihead_attn, [(0, 1), (1, 3)])
                set_norm(to.attention.layer_norm, layer.norm2)
                last = layer.norm3
            set_linear(to.ffn.linear_0, layer.linear1.weight, layer.linear1.bias)
            set_linear(to.ffn.linear_1, layer.linear2.weight, layer.linear2.bias)
            set_norm(to.ffn.layer_norm, last)

    set_stack(spec.encoder, model.transformer.encoder, model.src_tok_emb)
    set_stack(spec.decoder, model.transformer.decoder, model.tgt_tok_emb)
    set_linear(spec.decoder.projection, model.generator.weight, model.generator.bias)
    spec.register_source_vocabulary(vocabulary())
    spec.register_target_vocabulary(vocabulary())
    spec.validate()
    spec.optimize()
    return spec
