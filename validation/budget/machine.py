"""What is assumed of an H100 and of the libraries, each with where it is from. Nothing of it was measured by xgsw."""
from contextlib import contextmanager
from typing import NamedTuple


class Assumption(NamedTuple):
    value: float
    unit: float
    words: str
    source: str


ASSUMED = {
    "peak": Assumption(989e12, 1e12, "TF/s, BF16, of which MFU is a share", "the recipes"),
    "products": Assumption(
        710e12, 1e12, "TF/s that power lets a product hold; slower ones by products.list",
        "audit of 2026-11-22; the best measured is 794.5 (stas00/ml-engineering), priced beside it"),
    "FP8 peak": Assumption(1979e12, 1e12, "TF/s, of which the MFU of FP8 is a share", "the recipes"),
    "FP8 products": Assumption(1.765, 1, "times the rate that power lets a BF16 product hold",
                               "best measured on an H100: 1402.6 beside 794.5 (stas00/ml-engineering)"),
    "split sums": Assumption(1.15, 1, "times the seconds of FP8 products without fast accumulation: the gradients'",
                             "torchao #2377 measured 1.1 to 1.2"),
    "attention forward": Assumption(
        605e12, 1e12, "TF/s, causal, half of the square counted",
        "cuDNN at 8192 positions: mean of 644 (H200, cudnn-frontend's benchmark), 566 (H100, flash-attention #1893)"),
    "attention backward": Assumption(505e12, 1e12, "TF/s, counted as 2.5 times the forward's",
                                     "the same two: 541 and 470"),
    "attention at 4096": Assumption(
        0.90, 1, "of those rates at 4096 positions, and for the calls of a context rank at 8192",
        "591/644 and 474/541 (the same benchmark at 4096); for the calls of pieces our guess"),
    "memory": Assumption(0.85 * 3.35e12, 1e12, "TB/s",
                         "85 % of 3.35; a copy on an H100 reached 3.0, cuDNN's norms 3.7 of an H200's 4.8"),
    "memory before": Assumption(
        1.29, 1, "times that for memory-bound kernels before issue 13",
        "audit: 1.49 ms a layer of 8b where the bytes take 1.15; SwiGLU is bound by instructions"),
    "gap": Assumption(3e-6, 1e-6, "us between two kernels", "audit: 0.08 ms a layer of 8b for some 26 kernels"),
    "multiprocessors": Assumption(132, 1, "multiprocessors", "NVIDIA"),
    "given away": Assumption(16, 1, "of them left to transfers before issue 13 (transfer_sms)", "src/plan/keys/keys.c"),
    "nvlink": Assumption(370e9, 1e9, "GB/s each way for what all GPUs of a node send at once, of a line rate of 450",
                         "NCCL's developers, nccl-tests #212; copy engines 371 to 380 in nccl #1264"),
    "network": Assumption(46e9, 1e9, "GB/s each way and GPU, of 400 Gb/s",
                          "NCCL's developers, nccl-tests #290: 46 to 48"),
    "thread block": Assumption(20.6e9, 1e9, "GB/s that one CTA of NCCL moves",
                               "a link in its topo.h; the audit: 10 to 25"),
    "copy latency": Assumption(20e-6, 1e-6, "us to start and end a collective of copy engines", "our guess"),
    "latency": Assumption(25e-6, 1e-6, "us to start and end a kernel of NCCL; over the network twice", "our guess"),
    "filling": Assumption(25e-6, 1e-6, "us lost where a weight gradient fills a gap: half a tile of it runs on",
                          "128 x 256 x 4096 at 710 TF/s over 132 multiprocessors: 50 us"),
}


def of(name):
    return ASSUMED[name].value


@contextmanager
def assumed(name, value):
    """Another value, for as long as the block runs."""
    kept = ASSUMED[name]
    ASSUMED[name] = kept._replace(value=value)
    try:
        yield
    finally:
        ASSUMED[name] = kept


def table():
    """The assumptions as lines of text."""
    return [f"  {name:20} {a.value / a.unit:8.4g} {a.words}\n{'':31}({a.source})" for name, a in ASSUMED.items()]
