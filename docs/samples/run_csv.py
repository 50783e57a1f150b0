"""Runs a schedule in CSV through torch's pipeline runtime and checks the gradients against a run without a pipeline.

    torchrun --nproc-per-node RANKS run_csv.py FILE.csv

A process per rank (a line of the file), on CPU over gloo. The model is a small layer per stage: what is tried is the order.
"""

import copy
import re
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, ROWS_PER_MICROBATCH = 16, 4


def main(path: str) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    # Which stages this rank computes, and how many stages and microbatches there are: from the forwards in the file.
    lines = open(path).read().splitlines()
    rows = [[tuple(map(int, forward)) for forward in re.findall(r"(\d+)F(\d+)", line)] for line in lines]
    assert len(rows) == dist.get_world_size(), f"{path} has {len(rows)} ranks: use --nproc-per-node {len(rows)}"
    n_stages = 1 + max(stage for row in rows for stage, _ in row)
    n_microbatches = 1 + max(microbatch for row in rows for _, microbatch in row)
    mine = sorted({stage for stage, _ in rows[rank]})

    # The same model and batch on every rank.
    torch.manual_seed(0)
    model = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(n_stages)]
    inputs, targets = torch.randn(2, n_microbatches * ROWS_PER_MICROBATCH, WIDTH)
    loss = torch.nn.functional.mse_loss

    # With the pipeline. A file of computations gets transfers and marks from torch; one with transfers runs as it stands.
    parts = {stage: copy.deepcopy(model[stage]) for stage in mine}
    stages = [PipelineStage(part, stage, n_stages, torch.device("cpu")) for stage, part in parts.items()]
    schedule = _PipelineScheduleRuntime(stages, n_microbatches, loss_fn=loss, scale_grads=False)
    schedule._load_csv(path, format="compute_comms" if "SEND_" in "".join(lines) else "compute_only")
    arguments = (inputs,) if 0 in mine else ()
    schedule.step(*arguments, target=targets if n_stages - 1 in mine else None)

    # Without: microbatch by microbatch through the whole model.
    for batch, target in zip(inputs.chunk(n_microbatches), targets.chunk(n_microbatches)):
        loss(torch.nn.Sequential(*model)(batch), target).backward()

    worst = 0.0
    for stage, part in parts.items():
        for ours, reference in zip(part.parameters(), model[stage].parameters()):
            torch.testing.assert_close(ours.grad, reference.grad, rtol=1e-5, atol=1e-6)
            worst = max(worst, (ours.grad - reference.grad).abs().max().item())
    print(f"rank {rank}: stages {mine}: gradients as without a pipeline, largest difference {worst:.1e}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
