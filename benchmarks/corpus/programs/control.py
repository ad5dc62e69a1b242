"""Control and reinforcement learning."""

import torch
import torch.nn.functional as F
from torch import nn

from corpus.common import Draw, mlp, program


@program("robotics")
def riccati(device, small):
    """A linear quadratic regulator: backward iteration of Riccati's equation with solves."""
    n, steps = (4, 5) if small else (32, 50)
    draw = Draw(device)
    a = torch.eye(n, device=device) + draw.normal(n, n, scale=0.02)
    b, q = draw.normal(n, n // 2), torch.eye(n, device=device)

    def step():
        p = q
        for _ in range(steps):
            gain = torch.linalg.solve(torch.eye(n // 2, device=device) + b.T @ p @ b, b.T @ p @ a)
            p = q + a.T @ p @ (a - b @ gain)
        return p

    return step


@program("control")
def policy_gradient(device, small):
    """REINFORCE on a cart and pole: an action is read at each step, and episodes have many lengths."""
    longest = 10 if small else 60
    draw = Draw("cpu")
    model = draw.weights(mlp(4, 32, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    chances = draw.rng.uniform(size=(8, longest))
    turn = {"episode": 0}

    def step():
        episode = turn["episode"]
        turn["episode"] += 1
        state, logs, rewards = [0.0, 0.0, 0.02, 0.0], [], []
        for t in range(longest // 2 + 7 * episode % (longest // 2)):
            probs = F.softmax(model(torch.tensor(state, device=device)), -1)
            action = int(probs[0].item() < chances[episode % 8, t])
            logs.append(torch.log(probs[action]))
            x, dx, angle, spin = state
            push = 10.0 if action else -10.0
            state = [
                x + 0.02 * dx,
                dx + 0.02 * push / 1.1,
                angle + 0.02 * spin,
                spin + 0.02 * (9.8 * angle - push / 1.1),
            ]
            rewards.append(1.0 - abs(angle))
        returns, total = [], 0.0
        for r in reversed(rewards):
            total = r + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns, device=device)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = torch.stack([-log * g for log, g in zip(logs, returns)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@program("control")
def q_learning(device, small):
    """DQN: a target net, gathered values and a Huber loss (Mnih et al., 2015)."""
    batch = 8 if small else 256
    draw = Draw(device)
    model, target = draw.weights(mlp(8, 128, 128, 4)), mlp(8, 128, 128, 4).to(device)
    target.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    state, after = draw.normal(batch, 8), draw.normal(batch, 8)
    action, reward, ended = draw.integers(4, batch, 1), draw.normal(batch), draw.integers(2, batch).float()

    def step():
        value = model(state).gather(1, action).squeeze(1)
        with torch.no_grad():
            best = model(after).argmax(1, keepdim=True)
            wanted = reward + 0.99 * target(after).gather(1, best).squeeze(1) * (1 - ended)
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(target.parameters(), model.parameters()):
                p.mul_(0.995).add_(q, alpha=0.005)
        return loss.detach()

    return step


@program("control")
def proximal_policy(device, small):
    """PPO's update over minibatches, with advantages by a backward loop (Schulman et al., 2017)."""
    times, actors = (8, 4) if small else (128, 16)
    draw = Draw(device)
    model = draw.weights(
        nn.ModuleDict({"actor": mlp(8, 64, 4, activation=nn.Tanh), "critic": mlp(8, 64, 1, activation=nn.Tanh)})
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)
    states, actions = draw.normal(times, actors, 8), draw.integers(4, times, actors)
    rewards, ended = draw.normal(times, actors), (draw.uniform(times, actors) < 0.05).float()
    order = [draw.tensor(draw.rng.permutation(times * actors)) for _ in range(2)]

    def step():
        with torch.no_grad():
            values = model["critic"](states).squeeze(-1)
            old = torch.distributions.Categorical(logits=model["actor"](states)).log_prob(actions)
            advantages, running = torch.zeros_like(rewards), 0.0
            for t in reversed(range(times)):
                following = values[t + 1] if t + 1 < times else values[t]
                delta = rewards[t] + 0.99 * following * (1 - ended[t]) - values[t]
                advantages[t] = running = delta + 0.99 * 0.95 * (1 - ended[t]) * running
            returns = advantages + values
        flat = [x.flatten(0, 1) for x in (states, actions, old, advantages, returns)]
        for permutation in order:
            for rows in permutation.chunk(4):
                s, a, before, adv, ret = (x[rows] for x in flat)
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy = torch.distributions.Categorical(logits=model["actor"](s))
                ratio = (policy.log_prob(a) - before).exp()
                gain = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                loss = F.mse_loss(model["critic"](s).squeeze(-1), ret) - gain - 0.01 * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
        return loss.detach()

    return step


@program("robotics")
def planning(device, small):
    """Plans by gradients through a rollout of a learned model."""
    plans, horizon = (4, 4) if small else (256, 20)
    draw = Draw(device)
    dynamics = draw.weights(mlp(6, 64, 4, activation=nn.Tanh)).requires_grad_(False)
    start, goal = draw.normal(plans, 4), draw.normal(4)

    def step():
        actions = torch.zeros(horizon, plans, 2, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([actions], lr=0.1)
        for _ in range(3):
            s, cost = start, 0.0
            for t in range(horizon):
                s = s + 0.1 * dynamics(torch.cat((s, torch.tanh(actions[t])), -1))
                cost = cost + (s - goal).square().sum(-1).mean() + 0.01 * actions[t].square().mean()
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
        return actions.detach()

    return step
