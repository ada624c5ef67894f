#!/usr/bin/env python3
"""Prints seconds and GB/s in which PyTorch's distributed checkpoint saves and loads as many bytes as one of xgsw: FP32
weights and two moments, spread over the ranks like optimizer shards. Each save has a separate folder, and finishes when
its files are on the disk.
  torchrun --nproc-per-node 2 validation/peer/checkpoint_torch.py --gigabytes 1.3 --folder /tmp/dcp"""
import argparse
import glob
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--gigabytes", type=float, default=1.0)
parser.add_argument("--folder", default="/tmp/dcp")
parser.add_argument("--times", type=int, default=3)
arguments = parser.parse_args()
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
MATRIX = 4096 * 1024
matrices = max(1, round(arguments.gigabytes * 1e9 / 12 / MATRIX))
torch.manual_seed(1)
state = {f"{kind}.{i}": distribute_tensor(torch.randn(4096, 1024), mesh, [Shard(0)])
         for i in range(matrices) for kind in ("weight", "first_moment", "second_moment")}
size = 12 * matrices * MATRIX / 1e9


def sync(folder):
    for path in glob.glob(f"{folder}/*"):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


def timed(what):
    dist.barrier()
    begin = time.perf_counter()
    what()
    dist.barrier()
    return time.perf_counter() - begin


for number in range(arguments.times):
    folder = f"{arguments.folder}-{number}"
    saved = timed(lambda: (dcp.save(state, checkpoint_id=folder), sync(folder)))  # noqa: B023
    loaded = timed(lambda: dcp.load(state, checkpoint_id=folder))                 # noqa: B023
    if dist.get_rank() == 0:
        print(f"{size:.3f} GB: saved in {saved:.3f} s, {size / saved:.3f} GB/s; loaded in {loaded:.3f} s, "
              f"{size / loaded:.3f} GB/s", flush=True)
if dist.get_rank() == 0:
    for folder in glob.glob(f"{arguments.folder}-*"):
        shutil.rmtree(folder)
