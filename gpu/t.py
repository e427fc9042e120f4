import os; os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE","false")
import sys,time,traceback; sys.path.insert(0,'src')
import numpy as np, jax, jax.numpy as jnp
jax.config.update('jax_enable_x64',True)
import kinetree as kt
print(jax.__version__, jax.devices(), flush=True)
def bench(f,*a,n=20):
    jax.block_until_ready(f(*a)); ts=[]
    for _ in range(5):
        t=time.perf_counter()
        for _ in range(n): r=f(*a)
        jax.block_until_ready(r); ts.append((time.perf_counter()-t)/n)
    return np.median(ts)
def cases():
    yield 'id', lambda m: (lambda q,v,a: kt.inverse_dynamics(m,q,v,a,schedule='sequential'))
    yield 'fd', lambda m: (lambda q,v,a: kt.forward_dynamics(m,q,v,a,method='aba',schedule='sequential'))
rng=np.random.default_rng(0)
for name,make in cases():
    for n,bf in ((8,1),(32,2)):
        m=kt.auto_tree(n,bf,.3)
        for dt in (np.float32,np.float64):
            try:
                x=rng.uniform(-1,1,(3,1000,n)).astype(dt); f=make(m); ref=np.asarray(f(*x.astype(np.float64)))
                cpu=np.asarray(f(*x))
                t=time.perf_counter(); g=jax.jit(f); o=np.asarray(jax.block_until_ready(g(*map(jnp.asarray,x)))); first=time.perf_counter()-t
                out=[]
                for B in (1024,65536,1<<20):
                    X=[jnp.asarray(np.resize(a,(B,n))) for a in x]; s=bench(g,*X); out.append(f'B={B}: {s*1e6:.0f}us {B/s/1e6:.0f}M/s')
                # with columns-first layout kept by producer: compute on transposed storage
                print(name,n,bf,dt.__name__,f'first {first:.2f}s err {np.abs(o-ref).max()/np.abs(ref).max():.1e} bits==cpu {np.array_equal(o,cpu)}',*out,flush=True)
            except Exception: traceback.print_exc()
# soa arrays
m=kt.auto_tree(8,1,.3); f=lambda *a: kt.inverse_dynamics(m,*[y.T for y in a],schedule='sequential').T
for n in (8,32):
  m=kt.auto_tree(n,1 if n==8 else 2,.3)
  for dt in (jnp.float32,jnp.float64):
    X=[jnp.asarray(rng.uniform(-1,1,(n,1<<20)),dt) for _ in range(3)]; g=jax.jit(lambda *a,m=m: kt.inverse_dynamics(m,*[y.T for y in a],schedule='sequential').T)
    s=bench(g,*X); print('soa id',n,dt.__name__,f'{(1<<20)/s/1e6:.0f} M/s',flush=True)
# huge trees, XLA grids
for n,bf in ((1_000_000,1),(1_000_000,2)):
    m=kt.auto_tree(n,bf,.3); X=[jnp.asarray(a) for a in rng.uniform(-1,1,(3,n))]
    for s in ('paths','levels'):
        if s=='levels' and bf==1: continue
        try:
            t=time.perf_counter(); o=kt.inverse_dynamics(m,*X,schedule=s); jax.block_until_ready(o); first=time.perf_counter()-t
            d=bench(lambda *a: kt.inverse_dynamics(m,*a,schedule=s),*X,n=2); print('huge',n,bf,s,f'first {first:.1f}s run {d*1e3:.1f} ms',flush=True)
        except Exception: traceback.print_exc()
