"""PyTorch figures on the yardstick cases: torch_baseline.py [cuda|cpu [REGEX of cases [modes to skip, by commas]]].
Prints one JSON line per case; also writes them to $OUT/torch_DEVICE.jsonl. Large cases on a GPU are device times (events, L2 cleared), small ones loops.
"""

import os, re, sys, json, time, statistics as st, math
import torch, torch.nn as nn, torch.nn.functional as F

OUT = os.environ.get("OUT", ".")
fh = open(os.path.join(OUT, "torch_%s.jsonl" % (sys.argv[1] if len(sys.argv) > 1 else "gpu")), "w")


def emit(**k):
    s = json.dumps(k)
    print(s, flush=True)
    fh.write(s + "\n")
    fh.flush()


def loop_us(fn, iters, dev, reps=5, warm=5):
    for _ in range(warm):
        fn()
    if dev == "cuda":
        torch.cuda.synchronize()
    r = []
    for _ in range(reps):
        t = time.perf_counter()
        for _ in range(iters):
            fn()
        if dev == "cuda":
            torch.cuda.synchronize()
        r.append((time.perf_counter() - t) / iters * 1e6)
    return st.median(r)


def gpu_us(fn):
    from triton.testing import do_bench

    return do_bench(fn, warmup=50, rep=200, return_mode="median") * 1e3


def reset():
    torch._dynamo.reset()
    if torch.cuda.is_available():
        import gc

        gc.collect()
        torch.cuda.empty_cache()


MODES = {
    "eager": None,
    "inductor": dict(),
    "reduce-overhead": dict(mode="reduce-overhead"),
    "max-autotune": dict(mode="max-autotune"),
    "aot_eager": dict(backend="aot_eager"),
    "cudagraphs": dict(backend="cudagraphs"),
}


def comp(f, m):
    return f if MODES[m] is None else torch.compile(f, **MODES[m])


def timed_first(fn, dev):
    t = time.perf_counter()
    fn()
    if dev == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - t


ONLY = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")
SKIP = set(sys.argv[3].split(",")) if len(sys.argv) > 3 else set()


def case(name, dev, modes, make, iters=200, measure="loop", bytes_=None, flops=None):
    if not ONLY.search(name):
        return
    for m in modes:
        if m in SKIP:
            continue
        reset()
        try:
            fn = make(m)
            cold = timed_first(fn, dev)
            if measure == "gpu" and dev == "cuda":
                us = gpu_us(fn)
            else:
                us = loop_us(fn, iters, dev)
            d = dict(case=name, dev=dev, mode=m, us=round(us, 3), first_call_s=round(cold, 3))
            if bytes_:
                d["TBps"] = round(bytes_ / us / 1e6, 3)
            if flops:
                d["TFLOPs"] = round(flops / us / 1e6, 2)
            emit(**d)
        except Exception as e:
            emit(case=name, dev=dev, mode=m, error=str(e)[:300])


def rmsnorm_silu(x, w):
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    return F.silu(h)


class SimpleMLP(nn.Module):
    def __init__(s):
        super().__init__()
        s.fc1 = nn.Linear(512, 256)
        s.fc2 = nn.Linear(256, 128)
        s.fc3 = nn.Linear(128, 10)

    def forward(s, x):
        return s.fc3(torch.relu(s.fc2(torch.relu(s.fc1(x)))))


class Block(nn.Module):
    def __init__(s, d, h, p):
        super().__init__()
        s.h = h
        s.p = p
        s.n1 = nn.LayerNorm(d, bias=False)
        s.n2 = nn.LayerNorm(d, bias=False)
        s.qkv = nn.Linear(d, 3 * d, bias=False)
        s.o = nn.Linear(d, d, bias=False)
        s.f1 = nn.Linear(d, 4 * d, bias=False)
        s.f2 = nn.Linear(4 * d, d, bias=False)

    def forward(s, x):
        B, T, C = x.shape
        q, k, v = s.qkv(s.n1(x)).split(C, 2)
        q, k, v = (t.view(B, T, s.h, C // s.h).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=s.p if s.training else 0.0)
        x = x + F.dropout(s.o(y.transpose(1, 2).reshape(B, T, C)), s.p, s.training)
        return x + F.dropout(s.f2(F.gelu(s.f1(s.n2(x)))), s.p, s.training)


class GPT(nn.Module):
    def __init__(s, V=65, T=256, L=6, H=6, D=384, p=0.2):
        super().__init__()
        s.wte = nn.Embedding(V, D)
        s.wpe = nn.Embedding(T, D)
        s.p = p
        s.blocks = nn.ModuleList([Block(D, H, p) for _ in range(L)])
        s.nf = nn.LayerNorm(D, bias=False)
        s.head = nn.Linear(D, V, bias=False)
        s.head.weight = s.wte.weight

    def forward(s, idx, tgt):
        x = F.dropout(s.wte(idx) + s.wpe(torch.arange(idx.shape[1], device=idx.device)), s.p, s.training)
        for b in s.blocks:
            x = b(x)
        lg = s.head(s.nf(x))
        return F.cross_entropy(lg.view(-1, lg.size(-1)), tgt.view(-1))


class DecodeStack(nn.Module):
    def __init__(s, L=32, D=1024):
        super().__init__()
        s.w = nn.ParameterList([nn.Parameter(torch.ones(D)) for _ in range(L)])
        s.a = nn.ModuleList([nn.Linear(D, D, bias=False) for _ in range(L)])
        s.b = nn.ModuleList([nn.Linear(D, D, bias=False) for _ in range(L)])

    def forward(s, x):
        for w, a, b in zip(s.w, s.a, s.b):
            h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
            x = x + b(F.silu(a(h)))
        return x


def main(dev):
    torch.manual_seed(0)
    emit(
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        dev=dev,
        gpu=torch.cuda.get_device_name(0) if dev == "cuda" else None,
    )
    inf = (
        ["eager", "inductor", "reduce-overhead", "max-autotune", "aot_eager", "cudagraphs"]
        if dev == "cuda"
        else ["eager", "inductor", "max-autotune", "aot_eager"]
    )
    short = ["eager", "inductor", "reduce-overhead"] if dev == "cuda" else ["eager", "inductor"]
    # overhead of one tiny op
    with torch.no_grad():

        def mk(m):
            a = torch.randn(16, device=dev)
            b = torch.randn(16, device=dev)
            f = comp(lambda a, b: a + b, m)
            return lambda: f(a, b)

        case("tiny_add", dev, ["eager", "inductor"], mk, iters=2000)
        for B, dt in ((8, torch.float32), (8192, torch.float32), (8192, torch.bfloat16)):

            def mk(m):
                x = torch.randn(B, 4096, device=dev, dtype=dt)
                w = torch.randn(4096, device=dev, dtype=dt)
                f = comp(rmsnorm_silu, m)
                return lambda: f(x, w)

            case(
                f"rmsnorm_silu_{B}x4096_{str(dt)[6:]}",
                dev,
                short + (["max-autotune"] if B > 8 else []),
                mk,
                iters=300 if B == 8 else 20,
                measure="loop" if B == 8 else "gpu",
                bytes_=2 * B * 4096 * (4 if dt == torch.float32 else 2),
            )

        def mk(m):
            mod = SimpleMLP().to(dev).eval()
            x = torch.randn(64, 512, device=dev)
            f = comp(mod, m)
            return lambda: f(x)

        case("simple_mlp_b64", dev, inf, mk, iters=300)

        def mk(m):
            mod = DecodeStack().to(dev, torch.bfloat16).eval()
            x = torch.randn(1, 1024, device=dev, dtype=torch.bfloat16)
            f = comp(mod, m)
            return lambda: f(x)

        case("decode_stack32_d1024_bf16_b1", dev, short, mk, iters=50 if dev == "cuda" else 10)
        n = 8192

        def mk(m):
            x = torch.randn(n, n, device=dev)
            f = comp(lambda x: torch.softmax(x, -1), m)
            return lambda: f(x)

        case("softmax_8192x8192_f32", dev, short[:2], mk, iters=5, measure="gpu", bytes_=2 * n * n * 4)

        def mk(m):
            x = torch.randn(8192, 8192, device=dev)
            b = torch.randn(8192, device=dev)
            r = torch.randn(8192, 8192, device=dev)
            f = comp(lambda x, b, r: F.gelu(x + b, approximate="tanh") * 0.5 + r, m)
            return lambda: f(x, b, r)

        case("bias_gelu_residual_8192x8192_f32", dev, short[:2], mk, iters=5, measure="gpu", bytes_=3 * n * n * 4)

        def mk(m):
            x = torch.randn(16384, 4096, device=dev)
            f = comp(lambda x: x.sum(0), m)
            return lambda: f(x)

        case("colsum_16384x4096_f32", dev, short[:2], mk, iters=5, measure="gpu", bytes_=16384 * 4096 * 4)

        def mk(m):
            x = torch.randn(64 * 1024 * 1024, device=dev)
            f = comp(lambda x: x.sum(), m)
            return lambda: f(x)

        case("fullsum_64M_f32", dev, short[:2], mk, iters=5, measure="gpu", bytes_=64 * 1024 * 1024 * 4)
        M = 4096
        if dev == "cuda":
            for dt in (torch.bfloat16, torch.float32):
                for prec in (("highest", "high") if dt == torch.float32 else ("highest",)):
                    torch.set_float32_matmul_precision(prec)

                    def mk(m):
                        a = torch.randn(M, M, device=dev, dtype=dt)
                        b = torch.randn(M, M, device=dev, dtype=dt)
                        c = torch.randn(M, device=dev, dtype=dt)
                        f = comp(lambda a, b, c: F.gelu(a @ b + c, approximate="tanh"), m)
                        return lambda: f(a, b, c)

                    case(
                        f"matmul_bias_gelu_4096_{str(dt)[6:]}_{prec}",
                        dev,
                        ["eager", "inductor", "max-autotune"],
                        mk,
                        measure="gpu",
                        flops=2 * M**3,
                    )
        else:
            M = 1024

            def mk(m):
                a = torch.randn(M, M)
                b = torch.randn(M, M)
                c = torch.randn(M)
                f = comp(lambda a, b, c: F.gelu(a @ b + c, approximate="tanh"), m)
                return lambda: f(a, b, c)

            case("matmul_bias_gelu_1024_f32", dev, ["eager", "inductor", "max-autotune"], mk, iters=20, flops=2 * M**3)
        torch.set_float32_matmul_precision("highest")

    # layernorm fwd+bwd
    def mk(m):
        x = torch.randn(8192, 4096, device=dev, requires_grad=True)
        w = torch.ones(4096, device=dev, requires_grad=True)
        b = torch.zeros(4096, device=dev, requires_grad=True)
        g = torch.randn(8192, 4096, device=dev)
        f = comp(lambda x, w, b: F.layer_norm(x, (4096,), w, b), m)

        def step():
            x.grad = w.grad = b.grad = None
            f(x, w, b).backward(g)

        return step

    case("layernorm_fwdbwd_8192x4096_f32", dev, short[:2], mk, iters=10, measure="gpu", bytes_=5 * 8192 * 4096 * 4)

    def mk(m):
        x = torch.randn(8192, 4096, device=dev, requires_grad=True)
        w = torch.ones(4096, device=dev, requires_grad=True)
        g = torch.randn(8192, 4096, device=dev)
        f = comp(rmsnorm_silu, m)

        def step():
            x.grad = w.grad = None
            f(x, w).backward(g)

        return step

    case("rmsnorm_silu_fwdbwd_8192x4096_f32", dev, short[:2], mk, iters=10, measure="gpu", bytes_=5 * 8192 * 4096 * 4)
    V, Nt = (50257, 4096) if dev == "cuda" else (50257, 512)

    def mk(m):
        x = torch.randn(Nt, V, device=dev, requires_grad=True)
        t = torch.randint(0, V, (Nt,), device=dev)
        f = comp(lambda x, t: F.cross_entropy(x, t), m)

        def step():
            x.grad = None
            f(x, t).backward()

        return step

    case(f"cross_entropy_fwdbwd_{Nt}x{V}_f32", dev, short[:2], mk, iters=5, measure="gpu", bytes_=3 * Nt * V * 4)

    # MLP training step with Adam
    def mk(m):
        mod = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).to(dev)
        opt = torch.optim.Adam(mod.parameters(), lr=1e-3, fused=(m != "eager_foreach"))
        x = torch.randn(128, 784, device=dev)
        t = torch.randint(0, 10, (128,), device=dev)
        fwd = comp(lambda x, t: F.cross_entropy(mod(x), t), m)

        def step():
            opt.zero_grad(set_to_none=True)
            loss = fwd(x, t)
            loss.backward()
            opt.step()

        return step

    case("mlp_train_784_512_512_10_b128_adam", dev, short, mk, iters=200 if dev == "cuda" else 50)

    def mk(m):
        B = 64 if dev == "cuda" else 4
        mod = GPT(T=256 if dev == "cuda" else 128).to(dev).train()
        opt = torch.optim.AdamW(mod.parameters(), lr=1e-3, fused=True)
        T = 256 if dev == "cuda" else 128
        x = torch.randint(0, 65, (B, T), device=dev)
        t = torch.randint(0, 65, (B, T), device=dev)
        fwd = comp(mod, m)

        def step():
            opt.zero_grad(set_to_none=True)
            with torch.autocast(dev, torch.bfloat16, enabled=dev == "cuda"):
                loss = fwd(x, t)
            loss.backward()
            opt.step()

        return step

    case("nanogpt_char_train_step", dev, short, mk, iters=10 if dev == "cuda" else 2)


main(sys.argv[1] if len(sys.argv) > 1 else "cuda")
