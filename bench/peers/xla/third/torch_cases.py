# SPDX-License-Identifier: Apache-2.0
"""One process per device count: python torch_cases.py N FOLDER"""
import os, sys, pathlib
N = int(sys.argv[1]); FOLDER = pathlib.Path(sys.argv[2]); FOLDER.mkdir(exist_ok=True, parents=True)
os.environ |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(N), "XLA_USE_SPMD": "1"}
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
import torch_xla, torch_xla.runtime as xr, torch_xla.distributed.spmd as xs, torch_xla.core.xla_model as xm
xr.use_spmd()
dev = torch_xla.device()
torch.manual_seed(0)
two = {2: (2, 1), 4: (2, 2), 8: (2, 4), 6: (3, 2), 16: (4, 4), 3: (3, 1)}[N]
flat, grid = xs.Mesh(np.arange(N), (N,), ("d",)), xs.Mesh(np.arange(N), two, ("x", "y"))
def m(t, *spec, mesh=None):
    mesh = mesh or (flat if "d" in str(spec) else grid)
    return xs.mark_sharding(t, mesh, spec)
def t(*s, dtype=torch.float32): 
    return (torch.randn(*s) if dtype == torch.float32 else torch.randint(0, 8, s, dtype=dtype)).to(dev)
CASES = {}
def case(f): CASES[f.__name__] = f; return f

def train(model, loss, opt=None):
    loss.backward()
    opt = opt or torch.optim.SGD(model.parameters(), lr=.1)
    opt.step()
    return [loss] + [p.data for p in model.parameters()]

@case
def torch_linear_train():
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(dev)
    m(net[0].weight, "y", None); m(net[2].weight, None, "y")
    x, y = t(8 * 3, 16), t(24, dtype=torch.int64); m(x, "x", None)
    return train(net, F.cross_entropy(net(x), y))
@case
def torch_adamw_fsdp():
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 16)).to(dev)
    for l in (net[0], net[2]): m(l.weight, "d", None)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    x = t(48, 16); m(x, "d", None)
    return train(net, (net(x) ** 2).mean(), opt)
@case
def torch_encoder_layer():
    net = nn.TransformerEncoderLayer(16, 4, 32, dropout=0., batch_first=True).to(dev)
    m(net.linear1.weight, "y", None); m(net.linear2.weight, None, "y"); m(net.self_attn.in_proj_weight, "y", None)
    x = t(6 * 4, 6, 16); m(x, "x", None, None)
    return train(net, net(x).pow(2).mean())
@case
def torch_embedding_lm():
    e, w = nn.Embedding(48, 16).to(dev), nn.Linear(16, 48, bias=False).to(dev)
    m(e.weight, "d", None); m(w.weight, "d", None)
    x = torch.randint(0, 48, (8, 7)).to(dev)
    h = w(torch.tanh(e(x[:, :-1])))
    loss = F.cross_entropy(h.reshape(-1, 48), x[:, 1:].reshape(-1)); loss.backward()
    return [loss, e.weight.grad, w.weight.grad]
@case
def torch_conv_bn_train():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, padding=1)).to(dev)
    x = t(4, 3, 24, 24); m(x, None, None, "d", None)
    return train(net, net(x).square().mean())
@case
def torch_conv_batch():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).to(dev)
    x, y = t(48, 3, 8, 8), t(48, dtype=torch.int64); m(x, "d", None, None, None)
    return train(net, F.cross_entropy(net(x), y))
@case
def torch_sdpa_heads():
    q, k, v = (t(4, 8 * 3, 6, 4) for _ in range(3))
    for a in (q, k, v): m(a, "x", "y", None, None)
    return [F.scaled_dot_product_attention(q, k, v, is_causal=True)]
@case
def torch_dropout_mlp():
    net = nn.Sequential(nn.Linear(16, 32), nn.Dropout(.5), nn.Linear(32, 16)).to(dev)
    x = t(48, 16); m(x, "d", None)
    return train(net, net(x).sum())
@case
def torch_gather_scatter():
    x, i = t(48, 6), torch.randint(0, 48, (10,)).to(dev); m(x, "d", None)
    y = x.clone(); y[i] = 1.
    return [x[i], x.index_select(0, i), torch.zeros_like(x).index_add(0, i, t(10, 6)), x.gather(0, torch.randint(0, 48, (5, 6)).to(dev)), y]
@case
def torch_sort_topk_cumsum():
    x = t(12, 48); m(x, None, "d")
    a, b = x.sort(dim=1); c, d = x.topk(3, 1)
    return [a, b, c, d, x.cumsum(1), x.argmax(1), x.median(1).values, x.softmax(1), x.logsumexp(1)]
@case
def torch_shapes():
    x = t(12, 48); m(x, "x", "y")
    return [x.reshape(24, 24), x.t(), x.roll(2, 0), x.flip(1), F.pad(x, (1, 2, 3, 0)), torch.cat([x, x[:5]]), x[1::2, 3:], x.view(12, 6, 8).permute(2, 0, 1), torch.stack([x, x], 1), x.unfold(1, 6, 3), x.chunk(3, 1)[1], x.repeat(2, 1)]
@case
def torch_einsum_bmm():
    a, b = t(12, 6, 8), t(12, 8, 10); m(a, "x", None, "y"); m(b, "x", "y", None)
    return [torch.bmm(a, b), torch.einsum("bij,bjk->ik", a, b), a.mean((0, 1)), torch.einsum("bij,bjk->kib", a, b)]
@case
def torch_lstm():
    net = nn.LSTM(8, 12, batch_first=True).to(dev)
    x = t(12, 4, 8); m(x, "d", None, None)
    y, _ = net(x); loss = y.square().mean(); loss.backward()
    return [loss] + [p.grad for p in net.parameters()]
@case
def torch_intermediate_marks():
    x, w, v = t(24, 16), t(16, 48), t(48, 16)
    h = x @ w; m(h, "x", "y")
    y = F.gelu(h) @ v; m(y, "x", None)
    return [y, y.sum(0)]
@case
def torch_llama_block():
    D, H, B, T = 24, 6, 12, 8
    x = t(B, T, D).requires_grad_(); m(x, "x", None, None)
    ws = {n: (t(*s).requires_grad_()) for n, s in dict(q=(D, D), k=(D, D // 3), v=(D, D // 3), o=(D, D), g=(D, 48), u=(D, 48), d=(48, D)).items()}
    for n, w in ws.items(): m(w, *(("y", None) if n in "od" else (None, "y")))
    rms = lambda h: h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    h = rms(x); q, k, v = ((h @ ws[n]).view(B, T, -1, D // H).transpose(1, 2) for n in "qkv")
    k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
    s = (q @ k.transpose(-1, -2)).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1).to(dev), float("-inf"))
    h = x + (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D) @ ws["o"]
    y = rms(h); y = h + (F.silu(y @ ws["g"]) * (y @ ws["u"])) @ ws["d"]
    y.square().mean().backward()
    return [y] + [w.grad for w in ws.values()] + [x.grad]
@case
def torch_linalg_fft_misc():
    x = t(12, 48); m(x, "d", None) if 12 % N == 0 else m(x, None, "d")
    return [torch.linalg.cholesky(x @ x.t() + 12 * torch.eye(12).to(dev)), (x > 0).sum(1), x.clamp(-1, 1).prod(0), x.var(0), x.norm(), x.tril(), torch.where(x > 0, x, 0.), x.cumprod(1), x.to(torch.bfloat16) @ x.t().to(torch.bfloat16), torch.diff(x, dim=1)]
@case
def torch_pool_upsample():
    x = t(2, 4, 48, 12); m(x, None, None, "d", None)
    return [F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1), F.interpolate(x, scale_factor=2, mode="nearest"), F.layer_norm(x, (12,)), F.group_norm(x, 2), F.conv_transpose2d(x, t(4, 2, 3, 3), stride=2)]
@case
def torch_scan_cond():
    x = t(24, 16); m(x, "d", None)
    from torch_xla.experimental.scan import scan
    w = t(3, 16, 16)
    c, y = scan(lambda c, w: (torch.tanh(c @ w), c.sum(0)), x, w)
    return [c, y]
@case
def torch_uneven():
    x, w = t(13, 7), t(7, 11); m(x, "d", None)
    return [x @ w, (x @ w).softmax(0), x.flip(0), x.cumsum(0)]

only = sys.argv[3:]
for name, f in CASES.items():
    if only and not any(name.startswith(o) for o in only): continue
    try:
        torch_xla.sync() 
        outs = f()
        text = torch_xla._XLAC._get_xla_tensors_hlo(outs)
        (FOLDER / f"{name}-{N}.hlo").write_text(text)
    except Exception as e:
        print("FAILED", name, N, type(e).__name__, str(e).splitlines()[0][:200])
