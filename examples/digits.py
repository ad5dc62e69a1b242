"""Trains a classifier of handwritten digits: scikit-learn's 1,797 images of 8x8 pixels.

    python examples/digits.py [--epochs N] [--seed N] [--device cuda]

A loop as in PyTorch, with mark_step() at the end of each step. The report at the end says how many
kernels were compiled; a second run finds them all in the cache and compiles none.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import smolder
from smolder import nn, optim
from smolder.nn import functional as F

BATCH = 32


def load():
    """Training and test images, as float32 in [0, 1], and labels; the split never changes."""
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    parts = train_test_split(images, digits.target, test_size=360, random_state=0, stratify=digits.target)
    return [smolder.tensor(part) for part in parts]


def make_model():
    """A perceptron of two hidden layers."""
    return nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 10),
    )


def train(model, images, labels, epochs, seed):
    """Fits the model, with a learning rate that falls along a cosine."""
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    order = np.random.default_rng(seed)
    steps = len(images) // BATCH
    model.train()
    with tqdm(total=epochs * steps, unit="step") as bar:
        for epoch in range(epochs):
            shuffled = smolder.tensor(order.permutation(len(images)))
            for step in range(steps):
                batch = shuffled[step * BATCH : (step + 1) * BATCH]
                loss = F.cross_entropy(model(images[batch]), labels[batch], label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                smolder.mark_step()
                bar.update()
            schedule.step()
            bar.set_description(f"epoch {epoch + 1}/{epochs}, loss {loss.item():.4f}")


def accuracy(model, images, labels):
    """Share of images whose most likely digit is the right one."""
    model.eval()
    with smolder.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def run(args):
    """Trains, tests, reports; returns the test accuracy."""
    smolder.manual_seed(args.seed)
    train_images, test_images, train_labels, test_labels = load()
    model = make_model()
    started = time.perf_counter()
    train(model, train_images, train_labels, args.epochs, args.seed)
    took = time.perf_counter() - started
    score = accuracy(model, test_images, test_labels)

    print(smolder.metrics_report())
    compiled = smolder.metrics()["counters"].get("kernels.compiled", 0)
    print(f"trained in {took:.2f} s; kernels compiled: {compiled}")
    print(f"test accuracy: {100 * score:.2f}%")
    return score


def main(argv=None):
    """Reads the command line, and runs on the device that it names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it trains: cpu or cuda")
    args = parser.parse_args(argv)
    with smolder.device(args.device):
        return run(args)


if __name__ == "__main__":
    main()
