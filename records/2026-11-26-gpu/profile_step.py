"""Profile of a step of cloze-mini's training on the GPU."""
import torch
from benchmarks.pretrain import Pretrain, draw_step, build_trainer
from cloze.training.distributed import DistributedContext
from torch.profiler import profile, ProfilerActivity
import time
for batch, dropout in ((256, 0.0), (512, 0.0), (256, 0.1)):
    b = Pretrain(model="mini", batch=batch, max_seq_length=128, micro_batch_tokens=65536, dropout=dropout, dtype="bfloat16", device="cuda")
    dev = torch.device("cuda")
    data, tok, _ = draw_step(b, DistributedContext(dev))
    t = build_trainer(b, data, tok, dev)
    for _ in range(5): t.step()
    n = sum(len(x.input_ids) for x in data.batches)
    s = time.perf_counter()
    for _ in range(10): t.step()
    e = (time.perf_counter() - s) / 10
    print("batch", batch, "dropout", dropout, "tokens", n, "ms", round(e * 1e3, 2), "tokens/s", int(n / e))
    if dropout: continue
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(3): t.step()
    if batch == 256: print(p.key_averages().table(sort_by="cuda_time_total", row_limit=22, max_name_column_width=60).split("\n", 1)[1][:6000])
