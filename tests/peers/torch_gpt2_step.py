#!/usr/bin/env python3
"""Times training steps of GPT-2 in PyTorch on the CPU: the rival that olm2-bench is compared with.

Prints one JSON line per step, after the warm-up: {"step", "ms", "cpu_ms", "loss"}, then a line with
the medians and the settings.  cpu_ms counts all threads: on a busy machine, compare it with --threads
1.  PyTorch of Debian needs an optimized BLAS beside it: apt install libopenblas0-pthread.  Works with Debian's python3-torch (1.13) and
later versions; needs nothing else.

    /usr/bin/python3 tests/peers/torch_gpt2_step.py --batch 4 --tokens 256 --steps 10

PyTorch is run as fast as it goes here: OpenBLAS is told the CPU (it mistakes new ones, and is then
three times slower), and malloc asks for huge pages.  Both must be set before the process begins,
so the script starts itself again with them.
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

TUNING = {
    "OPENBLAS_CORETYPE": "Cooperlake",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
                      "glibc.malloc.trim_threshold=4294967296",
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=4, help="sequences per micro batch")
    parser.add_argument("--tokens", type=int, default=256, help="tokens per sequence")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=1, help="micro batches per step")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--channels", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--untuned", action="store_true", help="leave the environment as it is")
    return parser.parse_args()


def start_again_tuned(arguments):
    wanted = dict(TUNING, OMP_NUM_THREADS=str(arguments.threads))
    if arguments.untuned or all(os.environ.get(k) == v for k, v in wanted.items()):
        return
    os.environ.update(wanted)
    os.execv(sys.executable, [sys.executable, *sys.argv])


def build(torch, a):
    """GPT-2 (Radford et al. 2019) with a tied head, as plainly as PyTorch says it."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(a.channels), nn.LayerNorm(a.channels)
            self.qkv = nn.Linear(a.channels, 3 * a.channels)
            self.projection = nn.Linear(a.channels, a.channels)
            self.expand = nn.Linear(a.channels, 4 * a.channels)
            self.shrink = nn.Linear(4 * a.channels, a.channels)
            future = torch.ones(a.tokens, a.tokens, dtype=torch.bool).triu(1)
            self.register_buffer("future", future, persistent=False)

        def attend(self, x):
            b, t, c = x.shape
            parts = self.qkv(x).view(b, t, 3, a.heads, c // a.heads).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
            if hasattr(functional, "scaled_dot_product_attention"):
                out = functional.scaled_dot_product_attention(q, k, v, dropout_p=a.dropout,
                                                              is_causal=True)
            else:
                scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(c // a.heads))
                p = scores.masked_fill(self.future[:t, :t], -math.inf).softmax(-1)
                out = functional.dropout(p, a.dropout) @ v
            return self.projection(out.transpose(1, 2).reshape(b, t, c))

        def forward(self, x):
            x = x + functional.dropout(self.attend(self.norm_1(x)), a.dropout)
            inner = functional.gelu(self.expand(self.norm_2(x)), approximate="tanh")
            return x + functional.dropout(self.shrink(inner), a.dropout)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(a.vocabulary, a.channels)
            self.position = nn.Embedding(max(1024, a.tokens), a.channels)
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
            self.norm = nn.LayerNorm(a.channels)
            for name, parameter in self.named_parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, tokens, targets):
            x = self.token(tokens) + self.position.weight[:tokens.shape[1]]
            x = functional.dropout(x, a.dropout)
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.token.weight)
            return functional.cross_entropy(logits.view(-1, a.vocabulary), targets.view(-1))

    return Gpt2()


def make_optimizer(torch, model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8)


def main():
    a = parse_arguments()
    start_again_tuned(a)
    import torch

    torch.set_num_threads(a.threads)
    torch.manual_seed(1337)
    model = build(torch, a)
    optimizer = make_optimizer(torch, model)
    text = torch.randint(a.vocabulary, (a.accumulation, a.batch, a.tokens + 1))
    times, cpu_times = [], []
    for step in range(-a.warmup, a.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        total = 0.0
        for micro in text:
            loss = model(micro[:, :-1].contiguous(), micro[:, 1:].contiguous()) / a.accumulation
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ms = 1000 * (time.perf_counter() - begin)
        cpu_ms = 1000 * (time.process_time() - cpu_begin)
        if step < 0:
            continue
        times.append(ms)
        cpu_times.append(cpu_ms)
        print(json.dumps({"step": step, "ms": round(ms, 1), "cpu_ms": round(cpu_ms, 1),
                          "loss": round(total, 6)}), flush=True)
    median = statistics.median(times)
    tokens = a.accumulation * a.batch * a.tokens
    print(json.dumps({"median_ms": round(median, 1),
                      "median_cpu_ms": round(statistics.median(cpu_times), 1),
                      "tokens_per_s": round(1000 * tokens / median, 1),
                      "torch": torch.__version__, "threads": torch.get_num_threads(),
                      "batch": a.batch, "tokens": a.tokens, "accumulation": a.accumulation,
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "tuned": not a.untuned}))


if __name__ == "__main__":
    main()
