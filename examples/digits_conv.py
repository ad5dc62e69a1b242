"""Trains a convolutional net on handwritten digits: scikit-learn's 1,797 images of 8x8 pixels.

    python examples/digits_conv.py [--epochs N] [--seed N] [--checkpoint FILE] [--device cuda]

With --checkpoint the state is saved after each epoch. A run that finds the file goes on where it stood, and its losses
are those of a run that never stopped.
"""

import argparse
import os

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import smolder
from smolder import nn, optim
from smolder.nn import functional as F

BATCH = 32


def load():
    """Training and test images, as float32 [N, 1, 8, 8] in [0, 1], and labels; the split never changes."""
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    parts = train_test_split(images, digits.target, test_size=360, random_state=0, stratify=digits.target)
    return [smolder.tensor(part) for part in parts]


def make_model():
    """Two convolutions with batch norm, each followed by a pool, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(128, 10),
    )


class Training:
    """A model, its optimizer and how far they are: what a checkpoint holds."""

    def __init__(self, seed, epochs):
        smolder.manual_seed(seed)
        self.seed, self.epoch, self.losses = seed, 0, []
        self.model = make_model()
        self.optimizer = optim.AdamW(self.model.parameters(), lr=3e-3, weight_decay=1e-2)
        self.schedule = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=epochs)

    def save(self, path):
        """Writes everything that the next epoch depends on; a kill leaves the old file or the new one."""
        state = {
            "epoch": self.epoch,
            "losses": self.losses,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": smolder.get_rng_state(),
        }
        smolder.save(state, path)

    def restore(self, path):
        """Goes on where save() stood."""
        state = smolder.load(path)
        self.epoch, self.losses = state["epoch"], state["losses"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        smolder.set_rng_state(state["random"])

    def run_epoch(self, images, labels):
        """One pass over the images in an order that the seed and the epoch give; returns the mean loss."""
        self.model.train()
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(images))
        shuffled = smolder.tensor(order)
        steps = len(images) // BATCH
        total = smolder.zeros(())
        for step in tqdm(range(steps), desc=f"epoch {self.epoch + 1}", unit="step", leave=False):
            batch = shuffled[step * BATCH : (step + 1) * BATCH]
            loss = F.cross_entropy(self.model(images[batch]), labels[batch], label_smoothing=0.1)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            smolder.mark_step()
        self.schedule.step()
        self.epoch += 1
        self.losses.append(total.item() / steps)
        return self.losses[-1]


def accuracy(model, images, labels):
    """Share of images whose most likely digit is the right one."""
    model.eval()
    with smolder.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def run(args):
    """Trains, tests, reports; returns the test accuracy."""
    train_images, test_images, train_labels, test_labels = load()
    training = Training(args.seed, args.epochs)
    if args.checkpoint and os.path.exists(args.checkpoint):
        training.restore(args.checkpoint)
        print(f"going on after epoch {training.epoch}")
    while training.epoch < args.epochs:
        loss = training.run_epoch(train_images, train_labels)
        print(f"epoch {training.epoch}: loss {loss:.6f}")
        if args.checkpoint:
            training.save(args.checkpoint)
    score = accuracy(training.model, test_images, test_labels)
    print(f"kernels compiled: {smolder.metrics()['counters'].get('kernels.compiled', 0)}")
    print(f"test accuracy: {100 * score:.2f}%")
    return score


def main(argv=None):
    """Reads the command line, and runs on the device that it names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", metavar="FILE", help="saved after each epoch, and gone on from if it is there")
    parser.add_argument("--device", default="cpu", help="where it trains: cpu or cuda")
    args = parser.parse_args(argv)
    with smolder.device(args.device):
        return run(args)


if __name__ == "__main__":
    main()
