# SPDX-License-Identifier: Apache-2.0
"""A tiny GPT that learns to write like a text, character by character, with PyTorch's DistributedDataParallel.

Every process of the job runs this file. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment (env://).
All settings: ddp_gpt.yaml; Hydra changes into run_dir, where snapshot and logs lie.
"""
import hashlib
import logging
import os
import socket

import hydra
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
log = logging.getLogger(__name__)


class Characters(Dataset):
    """Pieces of a text, each with the same piece one character later."""

    def __init__(self, path, block_size):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        self.symbols = torch.tensor([number[character] for character in text])
        self.block_size = block_size

    def __len__(self):
        return (len(self.symbols) - 1) // self.block_size

    def __getitem__(self, index):
        start = index * self.block_size
        piece = self.symbols[start:start + self.block_size + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each around a residual."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                          nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        split = self.queries_keys_values(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_forward(x)


class TinyGPT(nn.Module):
    def __init__(self, alphabet_size, block_size, layers, heads, width):
        super().__init__()
        self.characters = nn.Embedding(alphabet_size, width)
        self.positions = nn.Parameter(torch.zeros(block_size, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.scores = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, alphabet_size))

    def forward(self, symbols):
        return self.scores(self.blocks(self.characters(symbols) + self.positions[:symbols.shape[1]]))


class Trainer:
    def __init__(self, config, dataset):
        self.config = config.trainer
        self.failure = config.simulate_failure
        self.rank = dist.get_rank()
        self.sampler = DistributedSampler(dataset, seed=1, drop_last=True)
        self.loader = DataLoader(dataset, batch_size=self.config.batch_size, sampler=self.sampler,
                                 num_workers=self.config.loader_workers, persistent_workers=True)
        torch.manual_seed(1)
        model = TinyGPT(len(dataset.alphabet), dataset.block_size, **config.model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=self.config.learning_rate)
        self.epochs_done = 0
        if os.path.exists(self.config.snapshot):
            self.load(model)
        self.model = DistributedDataParallel(model)

    def load(self, model):
        snapshot = torch.load(self.config.snapshot, map_location="cpu", weights_only=True)
        model.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(snapshot["optimizer"])
        self.epochs_done = snapshot["epochs_done"]
        log.info("resuming from the snapshot: %d of %d epochs are done", self.epochs_done, self.config.epochs)

    def save(self):
        snapshot = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "epochs_done": self.epochs_done}
        with open(self.config.snapshot + ".new", "wb") as file:
            torch.save(snapshot, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.config.snapshot + ".new", self.config.snapshot)

    def fail_on_purpose(self, epoch, step):
        first_attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if first_attempt and (epoch, self.rank) == (self.failure.epoch, self.failure.rank) and step == len(self.loader) // 2:
            log.error("leaving in the middle of epoch %d with code %d, on purpose", epoch, self.failure.exit_code)
            raise SystemExit(self.failure.exit_code)

    def train_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for step, (symbols, wanted) in enumerate(self.loader):
            self.fail_on_purpose(epoch, step)
            loss = F.cross_entropy(self.model(symbols).flatten(0, 1), wanted.flatten())
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
        dist.all_reduce(total)
        self.epochs_done = epoch
        if self.rank == 0:
            self.save()
            log.info("epoch %d of %d: loss %.4f", epoch, self.config.epochs, total[0] / total[1])

    def train(self):
        for epoch in range(self.epochs_done + 1, self.config.epochs + 1):
            self.train_epoch(epoch)
        weights = hashlib.sha256()
        for parameter in self.model.parameters():
            weights.update(parameter.detach().numpy().tobytes())
        log.info("done, weights %s", weights.hexdigest()[:16])


@hydra.main(version_base=None, config_path=".", config_name="ddp_gpt")
def main(config):
    dist.init_process_group("gloo")
    log.info("rank %d of %d: host %s, pid %d", dist.get_rank(), dist.get_world_size(), socket.gethostname(), os.getpid())
    Trainer(config, Characters(os.path.join(DATA, config.data.path), config.data.block_size)).train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
