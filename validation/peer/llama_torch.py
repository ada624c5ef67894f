#!/usr/bin/env python3
"""A compiled PyTorch model with the same shapes and the same training step. xgsw is compared with it on the same GPU in
the same minute.
  validation/peer/llama_torch.py [--layers L] [--batch B] [--warmup W] [--steps S] [--device cpu] [--tiny] [--eager]
  [--flops]
Llama 3.1 8B at full width: RMSNorm, RoPE with 3.1 scaling, grouped queries by scaled_dot_product_attention, SwiGLU,
separate embedding and head. Weights are BF16 with an FP32 master. Gradients are BF16, accumulated over microbatches of
one sequence and clipped by their norm. AdamW is fused. Tokens and labels are drawn uniformly on the device. Device
events time each step from optimizer to optimizer. Attention is the fastest of PyTorch's (cuDNN, flash, efficient),
measured on its shape first. If compiling fails, the model runs uncompiled and the output says so. Prints one line
PEER_RESULT with xgsw's names. --flops needs no PyTorch: it prints only the flops of a sequence for the recipe and the
model. Status: 0, 1 without a GPU or if a loss is not finite, 77 without PyTorch."""
import argparse
import contextlib
import dataclasses
import json
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from validate import devices     # noqa: E402


@dataclasses.dataclass
class Shape:
    layers: int = 12
    hidden: int = 4096
    ffn: int = 14336
    heads: int = 32
    kv_heads: int = 8
    vocabulary: int = 128256
    sequence: int = 8192
    base: float = 500000.0
    scaled: bool = True


def flops(s, causal=False):
    """Returns the flops of one sequence, forward and backward. A weight costs 6 a token. The two products of attention
    cost 12 a channel and position; a causal mask needs half of that."""
    head = s.hidden // s.heads
    weights = s.layers * (s.hidden * (s.heads + 2 * s.kv_heads) * head + s.heads * head * s.hidden
                          + 3 * s.hidden * s.ffn)
    positions = s.sequence // 2 if causal else s.sequence
    return s.sequence * (6 * (weights + s.vocabulary * s.hidden) + 12 * s.layers * s.heads * head * positions)


def rotation_table(torch, s, device):
    """Returns cosines and sines of positions, with the Llama 3.1 scaling of long wavelengths."""
    head = s.hidden // s.heads
    rate = s.base ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    if s.scaled:
        wave = 2.0 * math.pi / rate
        mix = (8192.0 / wave - 1.0) / 3.0
        rate = torch.where(wave > 8192.0, rate / 8.0, 
                           torch.where(wave < 2048.0, rate, (1.0 - mix) * rate / 8.0 + mix * rate))
    angle = torch.outer(torch.arange(s.sequence, dtype=torch.float64), rate)
    return angle.cos().to(device, torch.float32), angle.sin().to(device, torch.float32)


def build(torch, s, device, dtype):
    functional = torch.nn.functional
    head = s.hidden // s.heads

    def rotate(x, cosine, sine):
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).to(x.dtype)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = torch.nn.RMSNorm(s.hidden, 1e-5), torch.nn.RMSNorm(s.hidden, 1e-5)
            self.qkv = torch.nn.Linear(s.hidden, (s.heads + 2 * s.kv_heads) * head, bias=False)
            self.out = torch.nn.Linear(s.heads * head, s.hidden, bias=False)
            self.gate_up = torch.nn.Linear(s.hidden, 2 * s.ffn, bias=False)
            self.down = torch.nn.Linear(s.ffn, s.hidden, bias=False)

        def forward(self, x, cosine, sine):
            rows, length, _ = x.shape
            qkv = self.qkv(self.attention_norm(x)).view(rows, length, -1, head).transpose(1, 2)
            q, k, v = qkv.split((s.heads, s.kv_heads, s.kv_heads), 1)
            attended = functional.scaled_dot_product_attention(rotate(q, cosine, sine), rotate(k, cosine, sine), v,
                                                               is_causal=True,
                                                               enable_gqa=s.heads != s.kv_heads)
            x = x + self.out(attended.transpose(1, 2).reshape(rows, length, -1))
            gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
            return x + self.down(functional.silu(gate) * up)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(s.vocabulary, s.hidden)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(s.layers))
            self.final_norm = torch.nn.RMSNorm(s.hidden, 1e-5)
            self.head = torch.nn.Linear(s.hidden, s.vocabulary, bias=False)
            cosine, sine = rotation_table(torch, s, device)
            self.register_buffer("cosine", cosine, persistent=False)
            self.register_buffer("sine", sine, persistent=False)

        def forward(self, tokens, labels):
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, self.cosine, self.sine)
            logits = self.head(self.final_norm(x))
            return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = Model()
    torch.set_default_dtype(torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.01)
    return model


class Mastered:
    """AdamW on FP32 masters of BF16 weights. Gradients are converted one weight at a time, so that the FP32 copies of
    all never exist together."""

    def __init__(self, torch, model, fused):
        self.torch = torch
        self.weights = list(model.parameters())
        self.masters = [weight.detach().float().requires_grad_() for weight in self.weights]
        groups = [{"params": [m for m in self.masters if m.dim() > 1], "weight_decay": 0.1},
                  {"params": [m for m in self.masters if m.dim() == 1], "weight_decay": 0.0}]
        self.parts = [torch.optim.AdamW([dict(group, params=[m])], lr=3e-4, betas=(0.9, 0.95), eps=1e-5, fused=fused)
                      for group in groups for m in group["params"]]
        self.weight_of = {id(m): weight for m, weight in zip(self.masters, self.weights)}

    def step(self):
        torch = self.torch
        gradients = [weight.grad for weight in self.weights]
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g, dtype=torch.float32)
                                                     for g in gradients]))
        scale = (1.0 / (norm + 1e-6)).clamp(max=1.0)
        for part in self.parts:
            master = part.param_groups[0]["params"][0]
            weight = self.weight_of[id(master)]
            master.grad = weight.grad.float().mul_(scale)
            part.step()
            master.grad = None
            weight.data.copy_(master.data)
            weight.grad = None
        return norm


def step_clock(torch, device):
    """Returns a function that reads the device's clock. On a GPU it records an event."""
    if device != "cuda":
        return time.perf_counter
    def now():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
    return now


def attention_seconds(torch, s, device):
    """Returns for each attention of PyTorch that works here the seconds forward and backward, the least of five."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    head, seconds = s.hidden // s.heads, {}
    if device != "cuda":
        return seconds
    q, k, v = (torch.randn(1, heads, s.sequence, head, device=device, dtype=torch.bfloat16, requires_grad=True)
               for heads in (s.heads, s.kv_heads, s.kv_heads))
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                for _ in range(5):
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begin.record()
                    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                        enable_gqa=s.heads != s.kv_heads)
                    out.backward(out)
                    end.record()
                    torch.cuda.synchronize()
                    seconds[name] = min(1e-3 * begin.elapsed_time(end), seconds.get(name, math.inf))
        except (AttributeError, RuntimeError) as wrong:
            print(f"# {name}: {str(wrong).splitlines()[0][:160]}", flush=True)
    print(f"# attention of a layer, forward and backward: {seconds}", flush=True)
    return seconds


def compiled(torch, s, model, device):
    """Returns the model compiled and run once, or the model as it is and the reason."""
    try:
        fast = torch.compile(model)
        fast(*(torch.randint(s.vocabulary, (1, s.sequence), device=device) for _ in range(2))).backward()
        why = ""
    except Exception as wrong:  # pylint: disable=broad-except
        fast, why = model, f"{type(wrong).__name__}: {(str(wrong).strip() or 'says nothing').splitlines()[0][:200]}"
        print(f"# not compiled: {why}", flush=True)
    model.zero_grad(set_to_none=True)
    return fast, why


def train(torch, s, given, device):
    dtype = torch.bfloat16
    torch.manual_seed(1)
    model = build(torch, s, device, dtype)
    began = time.perf_counter()
    loss_of, given.why_eager = (model, "asked for") if given.eager else compiled(torch, s, model, device)
    print(f"# compiled and run once in {time.perf_counter() - began:.1f} s", flush=True)
    optimizer = Mastered(torch, model, fused=device == "cuda")
    now, moments, losses = step_clock(torch, device), [], []
    for step in range(given.warmup + given.steps):
        total = torch.zeros((), device=device)
        for _ in range(given.batch):
            tokens, labels = (torch.randint(s.vocabulary, (1, s.sequence), device=device) for _ in range(2))
            loss = loss_of(tokens, labels) / given.batch
            loss.backward()
            total += loss.detach()
        optimizer.step()
        moments.append(now())
        losses.append(total)
        if step < given.warmup:
            print(f"# step {step}: loss {losses[-1].item():.4f}", flush=True)
    if device == "cuda":
        torch.cuda.synchronize()
        seconds = [1e-3 * a.elapsed_time(b) for a, b in zip(moments, moments[1:])]
    else:
        seconds = [b - a for a, b in zip(moments, moments[1:])]
    return seconds[-given.steps:], [loss.item() for loss in losses]


def report(torch, s, given, device, seconds, losses):
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    peak = devices.peaks(name)[0] if device == "cuda" else math.nan
    mean, median = statistics.fmean(seconds), statistics.median(seconds)
    speed = given.batch * flops(s) / mean
    result = {"workload": "torch", "torch": torch.__version__, "compiled": not given.why_eager,
              "why_eager": given.why_eager, "device": name, "layers": s.layers,
              "sequence": s.sequence, "global_batch": given.batch, "warmup": given.warmup, "steps": given.steps,
              "mean_seconds": mean, "median_seconds": median,
              "minimum_seconds": min(seconds), "maximum_seconds": max(seconds),
              "tokens_per_second": given.batch * s.sequence / mean,
              "recipe_flops_per_sequence": flops(s), "model_flops_per_sequence": flops(s, causal=True),
              "recipe_mfu": speed / peak if peak > 0 else None,
              "model_mfu": given.batch * flops(s, causal=True) / mean / peak if peak > 0 else None,
              "losses": losses, "attention": given.attention,
              "memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
              "cudnn": torch.backends.cudnn.version()}
    print(f"Step time  mean {mean:.4f} s, median {median:.4f}, min {min(seconds):.4f}, max {max(seconds):.4f}; "
          f"recipe MFU {'n/a' if math.isnan(peak) else f'{100.0 * speed / peak:.2f} %'}")
    print("PEER_RESULT " + json.dumps(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 12), ("batch", 8), ("warmup", 3), ("steps", 12), ("sequence", 8192)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="a model for a smoke test")
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--flops", action="store_true")
    given = parser.parse_args()
    s = Shape(layers=given.layers, sequence=given.sequence)
    if given.tiny:
        s = Shape(layers=given.layers, hidden=128, ffn=256, heads=8, kv_heads=2, vocabulary=512,
                  sequence=given.sequence)
    if given.flops:
        print(f"{flops(s)} {flops(s, causal=True)}")
        return 0
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    try:
        import torch  # only if something is computed
    except ImportError as wrong:
        print(f"No PyTorch here, nothing to compare with: {wrong}.", file=sys.stderr)
        return 77
    if given.device == "cuda" and not torch.cuda.is_available():
        print("No GPU was used: PyTorch sees none.", file=sys.stderr)
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    tried = attention_seconds(torch, s, given.device)
    given.attention = min(tried, key=tried.get) if tried else "PyTorch's choice"
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend,
                                                given.attention)) if tried else contextlib.nullcontext():
        seconds, losses = train(torch, s, given, given.device)
    report(torch, s, given, given.device, seconds, losses)
    return 0 if all(map(math.isfinite, losses)) else 1


if __name__ == "__main__":
    sys.exit(main())
