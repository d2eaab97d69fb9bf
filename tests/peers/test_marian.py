"""The same weights in Hugging Face's MarianMTModel, the published Transformer, give the same numbers and sentences."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from weft.attention.multihead import CrossAttention, SelfAttention
from weft.attention.ragged_attention import alignment_weights
from weft.models.build import build_model
from weft.models.positions import sinusoids
from weft.models.seq2seq import Seq2Seq
from weft.models.transformer import TransformerLayer
from weft.ragged import Ragged
from weft.recipe import ModelSettings
from weft.search.interface import SearchRequest
from weft.search.sampling import greedy_search
from weft.text.specials import BEGIN, END

transformers = pytest.importorskip("transformers")

VOCABULARY, PAD = 31, 30
WIDTH, LONGEST = 24, 40


class Pair(NamedTuple):
    ours: Seq2Seq
    theirs: nn.Module


def make(activation: str = "relu") -> Pair:
    """Both with the same random weights, drawn wide enough that every part has its say."""
    torch.manual_seed(11)
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=3,
        encoder_ffn_dim=20,
        decoder_ffn_dim=28,
        activation_function=activation,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        max_position_embeddings=LONGEST,
        dropout=0.0,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=None,
    )
    theirs = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "embed_positions" in name:
                parameter.copy_(sinusoids(LONGEST, WIDTH))
            elif "layer_norm.weight" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0.0, 0.2)
        theirs.final_logits_bias.normal_()
        theirs.final_logits_bias[:, PAD] = -100.0  # a mark of theirs that we have not
    shared = {"kind": "transformer", "hidden": WIDTH, "norm_placement": "post", "activation": activation}
    settings = ModelSettings.model_validate(
        {
            "embedding": WIDTH,
            "tie": "all",
            "encoder": {**shared, "layers": 2, "heads": 4, "feed_forward": 20},
            "decoder": {**shared, "layers": 3, "heads": 3, "feed_forward": 28},
        }
    )
    ours = build_model(settings, source_size=VOCABULARY, target_size=VOCABULARY)
    assert isinstance(ours, Seq2Seq)
    copy_all(ours, theirs)
    return Pair(ours.eval(), theirs)


@torch.no_grad()
def copy_all(ours: Seq2Seq, theirs: nn.Module) -> None:
    """All of their weights into ours; what is left over on either side is an error."""
    for parameter in ours.parameters():
        parameter.fill_(float("nan"))
    ours.target_embedding.weight_VE.copy_(theirs.model.shared.weight)
    ours.output.bias_V.copy_(theirs.final_logits_bias[0])
    for own, layer in zip(ours.encoder.stack.layers, theirs.model.encoder.layers, strict=True):
        copy_layer(own, layer)
    for own, layer in zip(ours.decoder.stack.layers, theirs.model.decoder.layers, strict=True):
        copy_layer(own, layer)
    assert not [name for name, parameter in ours.named_parameters() if parameter.isnan().any()]
    places = theirs.model.encoder.embed_positions.weight.numel() + theirs.model.decoder.embed_positions.weight.numel()
    assert (
        sum(one.numel() for one in theirs.parameters()) - places
        == sum(one.numel() for one in ours.parameters()) - VOCABULARY
    )  # final_logits_bias is a buffer there


def copy_layer(own: TransformerLayer, layer: nn.Module) -> None:
    copy_attention(own.self_attention, layer.self_attn)
    own.self_attention_residual.norm.load_state_dict(layer.self_attn_layer_norm.state_dict())
    if own.cross_attention is not None:
        copy_attention(own.cross_attention, layer.encoder_attn)
        own.cross_attention_residual.norm.load_state_dict(layer.encoder_attn_layer_norm.state_dict())
    own.feed_forward.linear1.load_state_dict(layer.fc1.state_dict())
    own.feed_forward.linear2.load_state_dict(layer.fc2.state_dict())
    own.feed_forward_residual.norm.load_state_dict(layer.final_layer_norm.state_dict())


def copy_attention(own: SelfAttention | CrossAttention, attention: nn.Module) -> None:
    """Where we have one matrix for queries, keys and values, they have three."""
    own.output.load_state_dict(attention.out_proj.state_dict())
    if isinstance(own, SelfAttention):
        fill(own.query_key_value, attention.q_proj, attention.k_proj, attention.v_proj)
    else:
        fill(own.query, attention.q_proj)
        fill(own.key_value, attention.k_proj, attention.v_proj)


def fill(linear: nn.Linear, *parts: nn.Linear) -> None:
    linear.weight.copy_(torch.cat([part.weight for part in parts]))
    linear.bias.copy_(torch.cat([part.bias for part in parts]))


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Their batch: a grid, and where it holds tokens."""
    longest = max(map(len, rows))
    grid = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return grid, grid.ne(PAD).long()


def sentences(count: int, *, shortest: int = 1, longest: int = 19, seed: int = 3) -> list[list[int]]:
    random = Random(seed)
    return [
        [random.randrange(END + 1, PAD) for _ in range(random.randint(shortest, longest))] + [END] for _ in range(count)
    ]


@pytest.fixture(scope="module")
def pair() -> Pair:
    return make()


def compare(pair: Pair, sources: list[list[int]], targets: list[list[int]]) -> None:
    inputs = [[BEGIN, *target[:-1]] for target in targets]
    ids, mask = padded(sources)
    with torch.no_grad():
        theirs_BTV = pair.theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=padded(inputs)[0]).logits
        ours = Ragged.of(inputs).like(pair.ours(Ragged.of(sources), Ragged.of(inputs)).logits_NV).split()
    for row, logits_TV in enumerate(ours):
        torch.testing.assert_close(logits_TV, theirs_BTV[row, : len(logits_TV)], rtol=1e-5, atol=1e-5)


def test_logits(pair: Pair) -> None:
    """Rows of unequal length: padded and masked on their side, ragged on ours."""
    compare(pair, sentences(13), sentences(13, seed=4))


def test_logits_of_one_token(pair: Pair) -> None:
    compare(pair, [[END], [5, END], [7, 8, 9, END]], [[END], [4, 5, END], [END]])


def test_logits_with_another_activation() -> None:
    """Their ‘gelu’ is the exact one, as ours."""
    compare(make("gelu"), sentences(5), sentences(5, seed=4))


def test_attention_weights(pair: Pair) -> None:
    """The mean of the heads of the layer below the top one."""
    sources, inputs = sentences(5), [[BEGIN, 7, 5, 9], [BEGIN], [BEGIN, 4], [BEGIN, 8, 8], [BEGIN, 3, 6, 9, 12]]
    pair.theirs.set_attn_implementation("eager")
    ids, mask = padded(sources)
    with torch.no_grad():
        said = pair.theirs(
            input_ids=ids, attention_mask=mask, decoder_input_ids=padded(inputs)[0], output_attentions=True
        )
        ours = pair.ours(Ragged.of(sources), Ragged.of(inputs), return_attention=True)
        weights_BTS = alignment_weights(ours.attention, Ragged.of(sources).layout)
    pair.theirs.set_attn_implementation("sdpa")
    for row, target in enumerate(inputs):
        theirs_TS = said.cross_attentions[-2][row].mean(0)[: len(target)]
        torch.testing.assert_close(weights_BTS[row, : len(target)], theirs_TS, rtol=1e-5, atol=1e-5)


def test_greedy_sentences() -> None:
    """Trained for a moment on their side, so that what is said depends on what was read; four dozen sources a batch."""
    pair = make()
    optimizer = torch.optim.Adam(pair.theirs.parameters(), lr=0.005)
    for step in range(80):
        texts = sentences(32, shortest=2, longest=6, seed=100 + step)
        ids, mask = padded(texts)
        labels = padded([[*text[-2::-1], END] for text in texts])[0]
        loss = pair.theirs(input_ids=ids, attention_mask=mask, labels=labels.masked_fill(mask == 0, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    copy_all(*pair)
    sources, limit = sentences(48, seed=5, shortest=2, longest=11), 7
    ids, mask = padded(sources)
    theirs = pair.theirs.generate(
        input_ids=ids, attention_mask=mask, num_beams=1, do_sample=False, max_new_tokens=limit
    )
    memory = pair.ours.encode(Ragged.of(sources))
    request = SearchRequest(memory=memory, max_lengths=[limit] * len(sources), begin=BEGIN, end=END)
    answers = [one for [one] in greedy_search(pair.ours, request)]
    expected = []
    for row in theirs.tolist():
        assert row[0] == BEGIN
        tokens = row[1:]
        expected.append(tokens[: tokens.index(END)] if END in tokens else tokens)
    assert [answer.tokens for answer in answers] == expected
    assert len({tuple(tokens) for tokens in expected}) > 15  # and they are not all the same sentence
    assert 0 < sum(answer.ended == "end" for answer in answers) < len(sources)
