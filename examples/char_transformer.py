"""Trains a small transformer on the characters of a text file, and has it write some.

    python examples/char_transformer.py FILE [--steps N] [--checkpoint FILE] [--losses FILE] [--device cuda]

A loop as in PyTorch, with mark_step() at the end of each step. With --checkpoint the training is saved every --every
steps, model, optimizer, schedule and random numbers; started again it goes on from there, and its losses are those
of a training that was never stopped. --losses writes the loss of each step to a file, a line a step.
"""

import argparse
import os

from tqdm import tqdm

import smolder
from smolder import nn, optim
from smolder.nn import functional as F

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2
BATCH, LR = 16, 3e-3


class CharTransformer(nn.Module):
    """Scores of the character that follows each one of a text."""

    def __init__(self, characters):
        super().__init__()
        self.token = nn.Embedding(characters, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, characters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text):
        n = text.size(1)
        x = self.token(text) + self.position(smolder.arange(n))
        return self.head(self.layers(x, mask=self.mask[:n, :n], is_causal=True))


class Training:
    """Model, optimizer and schedule, and how many steps they have made."""

    def __init__(self, characters, steps):
        self.model = CharTransformer(characters)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=LR, weight_decay=0.1)
        self.schedule = optim.lr_scheduler.OneCycleLR(self.optimizer, LR, total_steps=steps)
        self.done = 0

    def step(self, text):
        """One step on stretches of the text that start anywhere; returns the loss, which nothing waits for."""
        starts = smolder.randint(0, len(text) - CONTEXT, (BATCH, 1))
        batch = text[starts + smolder.arange(CONTEXT + 1)]
        scores = self.model(batch[:, :-1])
        loss = F.cross_entropy(scores.transpose(1, 2), batch[:, 1:])
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        smolder.mark_step()
        return loss

    def save(self, path):
        """Everything that the next step depends on."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "schedule")}
        smolder.save(parts | {"done": self.done, "random": smolder.get_rng_state()}, path)

    def load(self, path):
        """Goes on from what save() wrote."""
        state = smolder.load(path)
        for name in ("model", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(state[name])
        self.done = state["done"]
        smolder.set_rng_state(state["random"])


def train(training, text, steps, checkpoint, every, losses):
    """Makes the steps that are left. Losses are read when they are shown, written or saved, not before."""
    unread = []

    def tell():
        for number, loss in unread:
            losses.write(f"{number} {loss.item():.9g}\n")
        losses.flush()
        unread.clear()

    with tqdm(total=steps, initial=training.done, unit="step") as bar:
        while training.done < steps:
            unread.append((training.done, training.step(text)))
            bar.update()
            if training.done % every == 0 or training.done == steps:
                bar.set_description(f"loss {unread[-1][1].item():.3f}")
                tell()
                if checkpoint:
                    training.save(checkpoint)


def write(model, alphabet, start, length, temperature=0.8):
    """Text that the model goes on with, a character at a time."""
    model.eval()
    text = [alphabet.index(c) for c in start]
    with smolder.no_grad():
        for _ in range(length):
            scores = model(smolder.tensor([text[-CONTEXT:]]))[0, -1] / temperature
            text.append(smolder.multinomial(F.softmax(scores, -1), 1).item())
    return "".join(alphabet[i] for i in text)


def run(args, content):
    """Trains, and prints what the model writes."""
    alphabet = sorted(set(content))
    text = smolder.tensor([alphabet.index(c) for c in content])

    smolder.manual_seed(args.seed)
    training = Training(len(alphabet), args.steps)
    if args.checkpoint and os.path.exists(args.checkpoint):
        training.load(args.checkpoint)
        print(f"goes on after step {training.done} of {args.steps}")
    training.model.train()
    with open(args.losses, "a", encoding="utf-8") as losses:
        train(training, text, args.steps, args.checkpoint, args.every, losses)
    print(write(training.model, alphabet, content[:CONTEXT], args.sample))


def main(argv=None):
    """Reads the command line and the text, and runs on the device that it names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a text of some thousand characters, as a licence")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", help="where the training is saved, and found when it is started again")
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
    parser.add_argument("--losses", default=os.devnull, help="a file for the loss of each step")
    parser.add_argument("--sample", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--device", default="cpu", help="where it trains: cpu or cuda")
    args = parser.parse_args(argv)
    with open(args.file, encoding="utf-8") as file:
        content = file.read()
    if len(content) <= CONTEXT:
        parser.error(f"{args.file} has {len(content)} characters; {CONTEXT + 1} are the least")
    with smolder.device(args.device):
        run(args, content)


if __name__ == "__main__":
    main()
