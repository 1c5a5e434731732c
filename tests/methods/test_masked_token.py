"""Hidden tokens as a contrast: a masked language model, and its cheaper relatives."""

import copy
import math
from functools import partial

import pytest
import torch
from tests.processes import on_processes
from torch import nn
from torch.nn.functional import cross_entropy

from invariance.encoders import Encoder, TextTower, build_encoder, build_text_tower
from invariance.errors import SettingError, ShapeError
from invariance.evaluation import knn
from invariance.methods import Method, build, customize
from invariance.views import Draws, HideTokens

PAD, BEGIN, END, MASK = SPECIAL = range(4)
N_TOKENS, LENGTH = 30, 9


class AnyNumbers(nn.Module):
    """A text tower that takes any number for a token."""

    def __init__(self, tower):
        super().__init__()
        self.tower = tower
        self.pad, self.table, self.states = tower.pad, tower.table, tower.states

    def forward(self, tokens):
        return self.tower(tokens.long())


def make_encoder():
    how = {"vocabulary": N_TOKENS, "length": LENGTH, "dropout": 0.0}
    tower = build_text_tower("text_tiny", **how)
    return Encoder(AnyNumbers(tower), input_shape=(LENGTH,))


def make(method="masked_token", **options):
    torch.manual_seed(0)
    return build(method, make_encoder(), **options).double()


def sentences(n=6):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, N_TOKENS, (n, LENGTH), generator=generator)
    lengths = torch.randint(4, LENGTH + 1, (n, 1), generator=generator)
    place = torch.arange(LENGTH)
    tokens = tokens.masked_fill(place == lengths - 1, END)
    return tokens.masked_fill(place == 0, BEGIN).masked_fill(place >= lengths, PAD)


def hide(tokens, share=0.4, samples=None, n_tokens=N_TOKENS, **how):
    samples = torch.arange(len(tokens)) if samples is None else samples
    operations = [
        HideTokens(
            share=share,
            mask=MASK,
            special=(*SPECIAL,),
            vocabulary=n_tokens,
            inverted=inverted,
        )
        for inverted in (False, True)
    ]
    keys = {"seed": 0, "epoch": 0, "samples": samples} | how
    return [hide(tokens, Draws(view=k, **keys)) for k, hide in enumerate(operations)]


def test_what_one_view_hides_the_other_shows():
    tokens = sentences(400)
    shown, hidden = hide(tokens, share=0.4)
    chosen = hidden != PAD
    ordinary = tokens > MASK
    torch.testing.assert_close(hidden[chosen], tokens[chosen])
    torch.testing.assert_close(shown[~chosen], tokens[~chosen])
    expected = (0.4 * ordinary.sum(1)).round().clamp(min=1)
    assert torch.equal(chosen.sum(1), expected.long())
    assert not (chosen & ~ordinary).any()
    masked, kept = (shown[chosen] == MASK), (shown[chosen] == tokens[chosen])
    assert masked.double().mean() == pytest.approx(0.8, abs=0.05)
    assert kept.double().mean() == pytest.approx(0.1, abs=0.05)
    assert shown[chosen & (shown != MASK)].min() > MASK
    alone = hide(tokens[7:8], share=0.4, samples=torch.tensor([7]))
    assert torch.equal(alone[0], shown[7:8]) and torch.equal(alone[1], hidden[7:8])
    assert not torch.equal(hide(tokens, share=0.4, epoch=1)[0], shown)
    with pytest.raises(SettingError, match="masked_share is the share"):
        hide(tokens, share=0.0)


def test_over_the_whole_vocabulary_it_is_a_masked_language_model():
    """The loss and every gradient are those of a tied output layer's cross-entropy."""
    learner, views = make(), hide(sentences())
    tower, chosen = learner.tower, views[1] != PAD
    states = tower.states(views[0])[chosen]
    slow = cross_entropy(states @ tower.table.weight.T, views[1][chosen])
    step = learner(views)
    torch.testing.assert_close(step.loss, slow, rtol=1e-12, atol=1e-12)
    weights = list(learner.parameters())
    ours, twin = (torch.autograd.grad(loss, weights) for loss in (step.loss, slow))
    for got, want in zip(ours, twin, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)
    assert learner.chance(6) == pytest.approx(math.log(N_TOKENS))


def test_what_is_read_is_of_the_vocabulary():
    learner, views = make(), hide(sentences())
    step = learner(views).with_ess().with_information()
    logits = (step.u @ learner.tower.table.weight.T).detach()
    target = views[1][views[1] != PAD]
    found = (logits.argmax(1) == target).double().mean()
    others = logits.scatter(1, target[:, None], -math.inf).softmax(1)
    ess = (1 / (others**2).sum(1) / (N_TOKENS - 1)).mean()
    expected = {
        "info_nce": step.loss,
        "mi_nats": math.log(N_TOKENS) - step.loss,
        "mi_ceiling": math.log(N_TOKENS),
        "accuracy": found,
        "accuracy_chance": 1 / N_TOKENS,
        "ess": ess,
    }
    for name, value in expected.items():
        value = torch.as_tensor(value, dtype=torch.float64).detach()
        torch.testing.assert_close(step.readings[name].double(), value), name
    learner.after_step(0.1)
    assert not {name for name in learner.state_dict() if "table" in name} - {
        name for name in learner.state_dict() if name.startswith("encoder.")
    }


def test_the_nearest_tokens_are_the_paper_s_ball():
    learner, views = make(k=5), hide(sentences())
    step = learner(views)
    logits = step.u @ learner.tower.table.weight.T
    target = views[1][views[1] != PAD]
    positive = logits.gather(1, target[:, None])
    others = logits.scatter(1, target[:, None], -math.inf).topk(5, 1).values
    slow = (torch.cat([positive, others], 1).logsumexp(1) - positive[:, 0]).mean()
    torch.testing.assert_close(step.loss, slow)
    assert learner.chance(6) == pytest.approx(math.log(6))
    readings = step.with_information().readings
    assert "accuracy" in readings
    assert readings["accuracy_chance"].item() == pytest.approx(1 / N_TOKENS)


def test_tokens_may_be_drawn_and_go_on_from_a_checkpoint():
    learner, views = make(n_draws=8), hide(sentences())
    first = learner(views).loss
    kept = copy.deepcopy(learner.state_dict())
    second = learner(views).loss
    assert first != second
    other = make(n_draws=8)
    other.load_state_dict(kept)
    assert other(views).loss == second
    second.backward()


def test_pieces_give_the_whole_gradient():
    grads, views = [], hide(sentences())
    for micro_batch in (None, 2):
        learner = make()
        learner.micro_batch = micro_batch
        learner(views).loss.backward()
        grads.append([p.grad for p in learner.parameters()])
    for whole, pieces in zip(*grads, strict=True):
        torch.testing.assert_close(whole, pieces)


def on_some(rank, sizes):
    """Loss and averaged gradients of a process's sentences."""
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    learner = make()
    step = learner([view[rows] for view in hide(sentences())])
    step.loss.backward()
    grads = [p.grad for p in learner.parameters()]
    for g in grads if len(sizes) > 1 else ():  # as data-parallel training does
        torch.distributed.all_reduce(g)
        g /= len(sizes)
    step = step.with_ess().with_information().gathered()
    return [step.loss.detach(), step.u, step.v, *step.readings.values(), *grads]


def test_processes_say_what_one_says(tmp_path):
    whole = on_some(0, (6,))
    for answer in on_processes(2, partial(on_some, sizes=(4, 2)), tmp_path):
        torch.testing.assert_close(answer, whole)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"k": N_TOKENS}, "29 negatives to choose from: got k = 30"),
        ({"n_draws": 3, "k": 3}, "n_draws takes tokens by chance and k the nearest"),
        ({"symmetric": True}, "Unknown option 'symmetric'"),
        ({"normalize": True}, "Unknown option 'normalize'"),
    ],
)
def test_what_cannot_be_is_answered(options, message):
    with pytest.raises(SettingError, match=message):
        make(**options)


def test_it_needs_a_text_tower_and_two_views():
    with pytest.raises(
        SettingError, match="needs a text tower, such as text_tiny: got"
    ):
        build("masked_token", build_encoder("tiny"))
    with pytest.raises(ShapeError, match="takes two views, the sentences and the tok"):
        make()(hide(sentences())[:1])
    batch = Method(objective="info_nce", positives="tokens")
    with pytest.raises(SettingError, match="hidden tokens are found in a vocabulary"):
        build(batch, make_encoder())
    learned = customize("masked_token", critic="mlp")
    with pytest.raises(SettingError, match="compared with the rows of a table"):
        build(learned, make_encoder())


def test_it_learns_which_words_go_together():
    """Topics of 40 words each: two labeled sentences of a topic are enough."""
    n_topics, n_words, length = 8, 40, 6
    n_tokens, generator = 4 + n_topics * n_words, torch.Generator().manual_seed(0)

    def draw(n):
        topics = torch.arange(n) % n_topics
        size = (n, length)
        words = topics[:, None] * n_words
        words = 4 + words + torch.randint(n_words, size, generator=generator)
        strays = torch.randint(4, n_tokens, size, generator=generator)
        words = words.where(torch.rand(size, generator=generator) < 0.8, strays)
        ends = torch.ones(n, 1, dtype=torch.long)
        return torch.cat([BEGIN * ends, words, END * ends], 1), topics

    (sentences, topics), (test, truths) = draw(800), draw(400)
    torch.manual_seed(0)
    how = {"length": length + 2, "width": 32, "layers": 1, "heads": 2, "dropout": 0.0}
    network = TextTower(vocabulary=n_tokens, **how)
    learner = build("masked_token", Encoder(AnyNumbers(network), input_shape=(8,)))

    @torch.no_grad()
    def score(features):
        rows = (features(x).float() for x in (sentences[:16], test))
        gallery, queries = rows
        return knn(gallery, topics[:16], queries, truths, k=2).accuracy

    def count(tokens):
        bags = torch.zeros(len(tokens), n_tokens)
        return bags.scatter_add_(1, tokens, (tokens > MASK).float())

    untrained, bag_of_words = score(network), score(count)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=0.005)
    for epoch in range(12):
        for batch in torch.randperm(800, generator=generator).split(100):
            optimizer.zero_grad()
            keys = {"epoch": epoch, "share": 0.3, "n_tokens": n_tokens}
            views = hide(sentences[batch], samples=batch, **keys)
            learner(views).loss.backward()
            optimizer.step()
    trained = score(network)
    assert trained > 0.85, (trained, untrained, bag_of_words)
    assert untrained < 0.4 and bag_of_words < 0.7
